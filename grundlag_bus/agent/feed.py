"""Coroutines that run side by side, and what they tell while they do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Feed(Generic[T]):
    """Iterating gives what is told, in order, and ends when all that was started has ended.

    What a coroutine raises is raised at the end, after its siblings ended.
    """

    def __init__(self) -> None:
        self._told: asyncio.Queue[T | None] = asyncio.Queue()
        self._working: list[asyncio.Task[None]] = []
        self._left = 0

    def tell(self, told: T) -> None:
        self._told.put_nowait(told)

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        working = asyncio.get_running_loop().create_task(coroutine)
        working.add_done_callback(lambda _: self._told.put_nowait(None))
        self._working.append(working)
        self._left += 1

    def __aiter__(self) -> Feed[T]:
        return self

    async def __anext__(self) -> T:
        while self._left:
            told = await self._told.get()
            if told is not None:
                return told
            self._left -= 1
        for working in self._working:
            working.result()
        raise StopAsyncIteration

    def cancel(self) -> None:
        for working in self._working:
            working.cancel()

    async def stop(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        running = {working for working in self._working if not working.done()}
        self.cancel()
        if running:
            await asyncio.wait(running)
        for working in self._working:
            if not working.cancelled():
                working.exception()  # it is seen
