"""An event loop whose clock stands still while anything is at work, and jumps to the next timer when nothing is.

So hours pass in the order in which they would, and nothing depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Float, bindparam

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus import Store

BEGINNING = 1_800_000_000.0
_PATIENCE = 0.005


class VirtualLoop(asyncio.SelectorEventLoop):
    """at_work: how much goes on in threads that the clock waits for; passed: seconds since the beginning."""

    def __init__(self) -> None:
        self.at_work = 0
        self.passed = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.passed

    def now(self) -> float:
        """Return Unix seconds by this clock."""
        return BEGINNING + self.passed

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Let no time pass as long as this is entered."""
        self.at_work += 1
        try:
            yield
        finally:
            self.at_work -= 1

    def keeps_time_of(self, store: Store) -> None:
        """Let a store go by this clock, which waits for it."""
        store.now = bindparam(None, callable_=self.now, type_=Float, unique=True)
        store.transaction = _waited_for(self, store.transaction)  # type: ignore[method-assign, assignment]  # this one


class _Selector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if timeout is None or loop.at_work:
            return super().select(_PATIENCE)
        ready = super().select(0)
        if not ready:
            loop.passed += timeout
        return ready


def _waited_for(
    loop: VirtualLoop, transaction: Callable[[], AbstractAsyncContextManager[AsyncConnection]]
) -> Callable[[], AbstractAsyncContextManager[AsyncConnection]]:
    @asynccontextmanager
    async def waited_for() -> AsyncIterator[AsyncConnection]:
        with loop.waits():
            async with transaction() as connection:
                yield connection

    return waited_for
