"""Work that goes on beside something else, and that nothing waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Beside:
    """Holds on to what runs: the event loop itself refers to its work only weakly.

    quiet: nothing is said of what is left when the loop is closed.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def do(self, work: Coroutine[None, None, None]) -> None:
        """Begin it. What it raises is the event loop's to log."""
        doing: Any = asyncio.get_running_loop().create_task(work)
        if self._quiet:
            doing._log_destroy_pending = False  # noqa: SLF001  as asyncio itself does it, for want of anything public
        self._running.add(doing)
        doing.add_done_callback(self._running.discard)

    async def end(self, *, within: float) -> None:
        """Wait that many seconds for what runs, then cancel the rest."""
        if self._running:
            await asyncio.wait(self._running, timeout=within)
        self.cancel()

    def cancel(self) -> None:
        for doing in list(self._running):
            doing.cancel()
