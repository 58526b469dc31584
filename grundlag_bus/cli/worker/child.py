"""A worker in a process that a supervisor started.

It drains when the supervisor says so, at a signal of its own, and when the supervisor is gone, so that no orphan goes
on serving; one that is too blocked to drain is killed when the time for that is over. However often it is told, it
drains once: a service manager may signal every process of a group beside what the supervisor says. Only the supervisor
can abort it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.worker.one import Serving, open_worker
from grundlag_bus.cli.worker.pace import Pace
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.cli.worker.status import ABORT, DRAIN, REPORT_EVERY, status_line

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterator

    from grundlag_bus.cli.worker.options import WorkerOptions
    from grundlag_bus.workers import Worker

COUNTED_IN = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the directory of what processes count together."""

_MOST_UNREAD = 65_536  # bytes of reports that are kept for a supervisor which does not read


async def work_for_supervisor(options: WorkerOptions, descriptor: int) -> int:
    """Serve until told otherwise, and report through the socket. Raises ConfigurationError, TransportError."""
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)  # what actions start must not hold it open
    reader, writer = await asyncio.open_connection(sock=inherited)
    _outlive(inherited, options.grace + Pace().ended_after_grace)
    orders = _Orders()
    on_signals(lambda which: orders.drain(signal=which.name))
    beside = [asyncio.create_task(_listen(reader, orders))]
    try:
        with _counting() as counting:
            async with open_worker(options, counting=counting) as opened:
                serving = Serving(opened.worker, options.namespace)
                orders.pass_to(serving)
                beside.append(asyncio.create_task(_report(opened.worker, writer)))
                await serving.ended()
                return Exit.FAILED if serving.aborted else Exit.COMPLETED
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        writer.close()


@contextmanager
def _counting() -> Iterator[bool]:
    """Say whether the supervisor wants counts, and close the files that they are in."""
    if COUNTED_IN not in os.environ:
        yield False
        return
    from grundlag_bus.telemetry.processes import close_files  # noqa: PLC0415  slow to import

    try:
        yield True
    finally:
        close_files()


def _outlive(supervisor: socket.socket, seconds: float) -> None:
    """Kill this process so many seconds after the supervisor is gone, whatever its event loop does."""
    end = select.poll()
    end.register(supervisor, select.POLLHUP)

    def wait() -> None:
        end.poll()
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="grundlag-supervisor", daemon=True).start()


class _Orders:
    """Passes on what is told, the first draining alone, and later what was told before anything served."""

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._why: dict[str, str] | None = None

    def pass_to(self, serving: Serving) -> None:
        self._serving = serving
        if self._why is not None:
            serving.drain(**self._why)

    def drain(self, **why: str) -> None:
        if self._why is None:
            self._why = why
            if self._serving is not None:
                self._serving.drain(**why)

    def abort(self) -> None:
        self.drain(by="supervisor")
        if self._serving is not None:
            self._serving.abort(by="supervisor")


async def _listen(reader: StreamReader, orders: _Orders) -> None:
    with suppress(ConnectionError):
        async for line in reader:
            if line == DRAIN:
                orders.drain(by="supervisor")
            elif line == ABORT:
                orders.abort()
    orders.drain(by="end of the supervisor")


async def _report(worker: Worker, writer: StreamWriter) -> None:
    while not writer.is_closing():
        if writer.transport.get_write_buffer_size() < _MOST_UNREAD:
            writer.write(status_line(worker.status()))
        if worker.started.is_set():
            await asyncio.sleep(REPORT_EVERY)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(worker.started.wait(), REPORT_EVERY)
