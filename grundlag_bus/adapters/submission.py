"""A call that was sent and is not waited for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import finalize

from grundlag_bus.schema.items import Item

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.schema.envelope import Reply
    from grundlag_bus.tools import ToolItems


_MOST_DROPPED = 10_000


class Submission:
    """A call on its way. Made by `Bus.submit`.

    It gets the reply for as long as it exists and its bus is open: a submission that nobody keeps costs nothing, and
    its call runs all the same.
    """

    __slots__ = ("__weakref__", "_cancel", "_items", "_reply", "call_id")

    def __init__(
        self, call_id: str, reply: asyncio.Future[Reply], cancel: Callable[[], None], items: ToolItems | None
    ) -> None:
        self.call_id = call_id
        self._reply = reply
        self._cancel = cancel
        self._items = items

    @property
    def done(self) -> bool:
        """Whether the reply is there."""
        return self._reply.done()

    def cancel(self) -> None:
        """Ask for the call to end; its reply says how it did, `outcome_unknown` where no worker has said so in time.

        A call that is delayed on a broker does not start if it is due within a day.
        """
        self._cancel()

    async def reply(self) -> Reply:
        """Wait for the reply and return it, whatever it is; each time the same.

        It comes by the call's deadline at the latest. When the bus is closed before, the call ends here as
        `outcome_unknown` (as `cancelled` where it was to run in this process and had not begun).
        """
        reply = await asyncio.shield(self._reply)
        if reply.response.items and self._items is not None:
            self._items.fold(Item.from_json(item) for item in reply.response.items)
        return reply


class Dropped:
    """The ids of the calls whose submissions nobody keeps, the newest of them: their replies are not late."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, call_id: str) -> None:
        self._ids[call_id] = None
        if len(self._ids) > _MOST_DROPPED:
            del self._ids[next(iter(self._ids))]

    def take(self, call_id: str) -> bool:
        """Forget an id, and return whether it was there."""
        return call_id in self._ids and self._ids.pop(call_id) is None


def when_dropped(submission: Submission, then: Callable[[], None]) -> None:
    """Call back in this loop when nobody keeps it any more: garbage is collected in whichever thread."""
    finalize(submission, _in_loop, asyncio.get_running_loop(), then).atexit = False


def _in_loop(loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nothing waits
        loop.call_soon_threadsafe(then)
