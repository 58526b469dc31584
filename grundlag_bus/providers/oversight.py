"""What whoever runs a call hears of it, and can do to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grundlag_bus.providers.bounds import Bounds, Stop

if TYPE_CHECKING:
    from grundlag_bus.providers.run_lease import RunLease
    from grundlag_bus.schema.progress import Progress, ProgressSink


class Oversight:
    """One for each call, over all its starts.

    sink: hears of its progress; cancelled: whether it was asked to end; may_have_run: whether it may have been started
    elsewhere before; lease: by which it may run, where there is a ledger; checkpointed: where its next start continues,
    where that is kept here.
    """

    __slots__ = ("_bounds", "_waiting", "cancelled", "checkpointed", "lease", "may_have_run", "sink")

    def __init__(self, sink: ProgressSink | None = None) -> None:
        self.sink = sink
        self.cancelled = self.may_have_run = False
        self.lease: RunLease | None = None
        self.checkpointed: Any = None
        self._bounds: Bounds | None = None
        self._waiting: asyncio.Event | None = None

    def cancel(self) -> None:
        """Ask the call to end: its action is cancelled where it runs, and not started where it does not."""
        self.cancelled = True
        if self._bounds is not None:
            self._bounds.stop(Stop.CANCELLED)
        if self._waiting is not None:
            self._waiting.set()

    def began(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def ended(self) -> None:
        self._bounds = None

    def report(self, progress: Progress) -> None:
        """Pass on what the call tells while it runs."""
        if self.sink is not None:
            self.sink(progress)

    async def pause(self, seconds: float) -> None:
        """Wait between two starts, or until it is cancelled."""
        if self.cancelled:
            return
        self._waiting = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.wait()
        except TimeoutError:
            return
        finally:
            self._waiting = None
