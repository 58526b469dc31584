"""A place for one worker process: whatever ends it, the next one is started there after a pause."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.worker.health import Seen, is_to_be_replaced
from grundlag_bus.cli.worker.status import DRAIN, REPORT_EVERY
from grundlag_bus.workers.status import ready

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.cli.worker.pace import Pace
    from grundlag_bus.cli.worker.process import WorkerProcess
    from grundlag_bus.workers.status import WorkerStatus

    Start = Callable[[Callable[[], None]], Awaitable[WorkerProcess]]
    """Starts a process. It takes what is to be called at each report."""

REFUSALS = (Exit.USAGE, Exit.UNREACHABLE)
"""Exit codes of a process that said what is wrong with its options, or that it cannot reach the bus."""

_LOGGER = structlog.get_logger("grundlag_bus.cli")


class Place:
    """Keeps one process alive. number: from 1; gone: called with the pid of each process that has ended."""

    def __init__(self, number: int, start: Start, pace: Pace, *, gone: Callable[[int], None]) -> None:
        self._number = number
        self._start = start
        self._pace = pace
        self._gone = gone
        self._stop = asyncio.Event()
        self._process: WorkerProcess | None = None
        self._deaths = 0
        self._ended = ""
        self._known: dict[str, Any] = {}
        self.tried = asyncio.Event()
        """Set when its first process serves, or has ended."""

    @property
    def status(self) -> WorkerStatus | None:
        """What its process reported last, and how long its loop has stood still since. Asked in any thread."""
        process = self._process
        if process is None or process.status is None:
            return None
        still = time.monotonic() - process.heard_at - REPORT_EVERY
        return replace(process.status, still=round(max(still, process.status.still), 1))

    @property
    def calls(self) -> int:
        """How many calls run there, by that report."""
        return 0 if self.status is None else self.status.in_flight

    def seen(self) -> Seen:
        """Tell what is known of it. Asked in any thread."""
        process = self._process
        if process is None:
            return Seen(self._number, None, 0.0, None, self._deaths, self._ended)
        now = time.monotonic()
        settled = now - process.started_at >= self._pace.settled_after
        unready = None if process.status is None else ready(process.status).reasons
        deaths = 0 if settled else self._deaths
        return Seen(self._number, process.pid, now - process.heard_at, unready, deaths, self._ended)

    async def keep(self, *, refusable: bool = False) -> int:
        """Start one process after the other until `stop`; return how the last one ended, 0 if none ran then.

        refusable: the first process ends this too, by a refusal: what it says is wrong was wrong from the beginning.
        """
        while not self._stop.is_set():
            code, lived = await self._one()
            refused = refusable and not self.tried.is_set() and code in REFUSALS
            self.tried.set()
            if refused or self._stop.is_set():
                return code
            self._deaths = 1 if lived >= self._pace.settled_after else self._deaths + 1
            pause = self._pace.pause(self._deaths)
            _LOGGER.warning(
                "process_ended", process=self._number, **self._known, how=self._ended, lived=lived, again_in=pause
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
        return Exit.COMPLETED

    def watch(self) -> None:
        """Kill the process if it has been silent for too long."""
        seen = self.seen()
        if self._process is not None and is_to_be_replaced(seen, self._pace):
            seconds = round(seen.silent, 1)
            _LOGGER.error("process_silent", process=self._number, **_known(self._process), seconds=seconds)
            self._process.kill()

    def stop(self, word: bytes = DRAIN) -> None:
        """Tell the process how to end, and start none any more."""
        self._stop.set()
        self.tried.set()
        if self._process is not None:
            self._process.tell(word)

    def kill(self) -> None:
        """End the process that did not end by itself."""
        if self._process is not None:
            _LOGGER.error("process_killed", process=self._number, **_known(self._process), calls=self.calls)
            self._process.kill()

    def _heard(self) -> None:
        if self.status is not None and self.status.started:
            self.tried.set()

    async def _one(self) -> tuple[int, float]:
        """Start a process and return how it ended, and how long it lived."""
        started = time.monotonic()
        try:
            process = await self._start(self._heard)
        except OSError as error:  # no memory, no process ids
            self._ended = f"because the system refused to start it ({error.strerror})"
            self._known = {}
            return Exit.FAILED, 0.0
        self._process = process
        if self._stop.is_set():
            process.tell(DRAIN)
        code = await process.ended()
        self._process = None
        self._known = _known(process)
        self._ended = _told(code)
        self._gone(process.pid)
        return code, round(time.monotonic() - started, 1)


def _known(process: WorkerProcess) -> dict[str, Any]:
    """Give the log what the process said last: who it is, and some of the calls that it ran."""
    status = process.status
    return {"pid": process.pid} | ({} if status is None else {"worker": status.name, "call_ids": status.calls})


def _told(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"by signal {-code}"
