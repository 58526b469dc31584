"""Who waits for something to change looks again when it rings."""

from __future__ import annotations

import asyncio


class Bell:
    """Take `next` before looking, so that no ring between looking and waiting is missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    @property
    def next(self) -> asyncio.Event:
        """Set at the next ring."""
        return self._next

    def ring(self) -> None:
        rung, self._next = self._next, asyncio.Event()
        rung.set()


async def rung(event: asyncio.Event, *, within: float) -> bool:
    """Wait that many seconds, and return whether it rang."""
    try:
        async with asyncio.timeout(within):
            await event.wait()
    except TimeoutError:
        return False
    return True
