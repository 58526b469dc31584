"""Several worker processes under one: started, watched, replaced, ended together.

Each is a fresh interpreter with a worker of its own. The first one is started alone, so that what is wrong with options
or bus is said once and ends the whole with the same exit code as without a supervisor. The supervisor itself loads
no registry and connects to nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.options import LEDGER, URL
from grundlag_bus.cli.worker.health import not_live, not_ready
from grundlag_bus.cli.worker.pace import Pace
from grundlag_bus.cli.worker.place import Place
from grundlag_bus.cli.worker.process import WorkerProcess
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.cli.worker.status import ABORT, DRAIN
from grundlag_bus.telemetry.report import Report

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping

    from grundlag_bus.cli.worker.health import Seen
    from grundlag_bus.cli.worker.options import WorkerOptions
    from grundlag_bus.workers.status import WorkerStatus

PACE = Pace()

_LOGGER = structlog.get_logger("grundlag_bus.cli")


class Supervisor:
    """Runs worker processes.

    environment: of each of them beside ours; gone: called with the pid of each that has ended.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        environment: Mapping[str, str],
        gone: Callable[[int], None],
        pace: Pace = PACE,
    ) -> None:
        self._pace = pace
        self._grace = options.grace
        # The address goes by the environment: every user of this machine sees the arguments of a process.
        addresses = {URL: options.url} if options.ledger is None else {URL: options.url, LEDGER: options.ledger}
        start = partial(WorkerProcess.start, options.arguments(), {**os.environ, **environment, **addresses})
        self._places = [Place(number, start, self._pace, gone=gone) for number in range(1, options.processes + 1)]
        self._received: list[signal.Signals] = []
        self._killing: asyncio.TimerHandle | None = None
        self._turned = time.monotonic()

    # --- asked by threads of the health server ------------------------------------------------------------------------

    def live(self) -> Report:
        """Tell whether every process is heard of, and whether this one's loop turns."""
        still = time.monotonic() - self._turned
        if still > self._pace.silent_after:
            return Report.of((f"the supervisor's loop has not turned for {still:.0f} s",))
        return Report.of(not_live(self._seen(), self._pace))

    def ready(self) -> Report:
        """Tell whether calls are served."""
        if self._received:
            return Report.of(("draining",))
        return Report.of(not_ready(self._seen(), self._pace))

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """Tell what the processes there are reported last, and how long they have been silent."""
        return tuple(status for place in self._places if (status := place.status) is not None)

    def _seen(self) -> tuple[Seen, ...]:
        return tuple(place.seen() for place in self._places)

    # --- in the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Supervise until a signal comes, which drains; a second one aborts. Return the exit code."""
        on_signals(self._receive)
        _LOGGER.info("supervising", processes=len(self._places), pid=os.getpid())
        watching = asyncio.create_task(self._watch())
        try:
            first = asyncio.create_task(self._places[0].keep(refusable=True))
            await self._places[0].tried.wait()
            if first.done():
                return first.result()  # it was refused
            others = [asyncio.create_task(place.keep()) for place in self._places[1:]]
            codes = await asyncio.gather(first, *others)
        finally:
            watching.cancel()
            if self._killing is not None:
                self._killing.cancel()
        if len(self._received) > 1:
            return 128 + self._received[-1]
        _LOGGER.info("stopped", processes=len(self._places))
        return Exit.FAILED if any(codes) else Exit.COMPLETED

    async def _watch(self) -> None:
        while True:
            slept = time.monotonic() - self._turned
            self._turned = time.monotonic()
            # Whoever was stopped itself has not read what the processes reported meanwhile.
            if not self._received and slept < self._pace.silent_after:
                for place in self._places:
                    place.watch()
            await asyncio.sleep(self._pace.look_every)

    def _receive(self, which: signal.Signals) -> None:
        self._received.append(which)
        calls = sum(place.calls for place in self._places)
        if len(self._received) == 1:
            _LOGGER.info("draining", signal=which.name, calls=calls)
            self._stop(DRAIN, within=self._grace + self._pace.ended_after_grace)
        elif len(self._received) == 2:  # noqa: PLR2004  the second one
            _LOGGER.warning("aborting", signal=which.name, calls=calls)
            self._stop(ABORT, within=self._pace.ended_after_abort)

    def _stop(self, word: bytes, *, within: float) -> None:
        for place in self._places:
            place.stop(word)
        if self._killing is not None:
            self._killing.cancel()
        self._killing = asyncio.get_running_loop().call_later(within, self._kill)

    def _kill(self) -> None:
        for place in self._places:
            place.kill()
