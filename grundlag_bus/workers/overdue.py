"""Settles what goes on although it was to end, before the broker takes it back and another worker starts it beside.

A thread cannot be stopped, and a coroutine may swallow its cancellation. Until then such a call keeps its place here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from grundlag_bus.workers.run import Run

BEFORE = 60.0
"""Seconds before the broker's time-out, for a reply and the ack."""
BETWEEN_LOOKS = 10.0

_LOGGER = get_logger("grundlag_bus.workers")


class Overdue:
    """Looks for such runs among all that a worker has at work.

    timeout_of: the seconds that the broker leaves a delivery of a lane with this worker; tell: replies that the outcome
    of a call is unknown.
    """

    def __init__(
        self, runs: Collection[Run], *, timeout_of: Callable[[str], float], tell: Callable[[Run, str], Awaitable[None]]
    ) -> None:
        self._runs = runs
        self._timeout_of = timeout_of
        self._tell = tell

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(BETWEEN_LOOKS)
            begun = [run for run in self._runs if run.begun and not run.settled and not run.early]
            late = [run for run in begun if clock() - run.since >= self._timeout_of(run.call.lane) - BEFORE]
            await asyncio.gather(*(self._settle(run) for run in late))

    async def _settle(self, run: Run) -> None:
        if run.over and not run.replied:
            return  # what becomes of it is on its way to the broker
        call = run.call
        _LOGGER.error("action_goes_on", provider=call.provider_id, action=call.action_id, call_id=call.call_id)
        if not run.over:
            await self._tell(run, "it did not end within the limit of its lane, nor when it was cancelled then")
        run.ack()
