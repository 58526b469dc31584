"""Something that takes a while to open, once for all who ask for it meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from grundlag_bus.errors import ServicesClosedError
from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_LOGGER = get_logger("grundlag_bus.providers")


class Opening(Generic[T]):
    """One attempt, in an asyncio task of its own: it is not cancelled with those who wait for it.

    what: names it in the log; too_late: what they are told who wait when it is given up.
    """

    __slots__ = ("_task", "_too_late", "_waiting", "_what")

    def __init__(self, opening: Coroutine[None, None, T], *, what: str, too_late: str) -> None:
        self._what = what
        self._too_late = too_late
        self._waiting = 0
        self._task = asyncio.create_task(opening, name=what)
        self._task.add_done_callback(self._done)

    @property
    def failed(self) -> bool:
        return self._task.done() and (self._task.cancelled() or self._task.exception() is not None)

    async def wait(self) -> T:
        """Return what was opened. Raises what opening it raised, and ServicesClosedError when it was given up."""
        self._waiting += 1
        try:
            await asyncio.wait({self._task})
        finally:
            self._waiting -= 1
        if self._task.cancelled():
            raise ServicesClosedError(self._too_late)
        return self._task.result()

    async def close(self) -> T | None:
        """Give it up, or return what was opened already, for its owner to close."""
        self._task.cancel()
        await asyncio.wait({self._task})
        return None if self.failed else self._task.result()

    def _done(self, task: asyncio.Task[T]) -> None:
        """Log an error that nobody is left to be told."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._waiting:
            _LOGGER.warning("opening_failed", what=self._what, exc_info=error)
