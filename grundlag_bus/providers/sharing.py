"""One piece of work for all who ask for the same at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class Sharing(Generic[T]):
    """Runs what is asked for once for each key, as long as it runs and somebody waits for it."""

    def __init__(self) -> None:
        self._shared: dict[str, _Shared[T]] = {}

    async def share(self, key: str, begin: Callable[[], Coroutine[None, None, T]]) -> T:
        """Return what the coroutine returns, or the one that runs for this key already.

        Cancelling the last one who waits cancels the coroutine, and waits until it has ended.
        """
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(asyncio.get_running_loop().create_task(begin()))
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.work)
        finally:
            shared.waiting -= 1
            if not shared.waiting:
                del self._shared[key]
                shared.work.cancel()
                if not shared.work.done():
                    await asyncio.wait({shared.work})


class _Shared(Generic[T]):
    __slots__ = ("waiting", "work")

    def __init__(self, work: asyncio.Task[T]) -> None:
        self.work = work
        self.waiting = 0
