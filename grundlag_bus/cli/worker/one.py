"""A worker in this process."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.adapters import connect
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.registries import load_registry
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.telemetry import ignore
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator, Iterator

    from grundlag_bus.cli.worker.options import WorkerOptions
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.telemetry import Hook

COUNTED_IN = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the directory of what processes count together."""

_LOGGER = structlog.get_logger("grundlag_bus.cli")


async def work(options: WorkerOptions) -> int:
    """Serve until a signal drains the worker; a second one aborts. Raises ConfigurationError, TransportError."""
    async with open_worker(options) as worker:
        serving = Serving(worker, options.namespace)
        received: list[signal.Signals] = []

        def receive(which: signal.Signals) -> None:
            received.append(which)
            if len(received) == 1:
                serving.drain(signal=which.name)
            else:
                serving.abort(signal=which.name)

        on_signals(receive)
        await serving.ended()
        return 128 + received[-1] if serving.aborted else Exit.COMPLETED


@asynccontextmanager
async def open_worker(options: WorkerOptions) -> AsyncIterator[Worker]:
    """Make the worker that was asked for, and close its transport at the end."""
    registry = await load_registry(options.spec)
    if options.keys_file is not None:
        registry.share_keys(SealKeys.load(options.keys_file))
    transport = connect(options.url, namespace=options.namespace).transport
    assert transport is not None  # noqa: S101  for mypy: a bus by its address has one
    try:
        with _counting(registry, options) as hook:
            yield Worker(
                transport,
                registry,
                providers=options.providers or None,
                lanes=options.lanes or None,
                concurrency=options.concurrency_of(registry),
                grace=options.grace,
                hook=hook,
            )
    finally:
        await transport.close()


@contextmanager
def _counting(registry: ProviderRegistry, options: WorkerOptions) -> Iterator[Hook]:
    """Count for the supervisor, where it wants that."""
    if options.report_to is None or COUNTED_IN not in os.environ:
        yield ignore
        return
    from grundlag_bus.telemetry.processes import close_files  # noqa: PLC0415  slow to import
    from grundlag_bus.telemetry.prometheus import PrometheusHook  # noqa: PLC0415  the same

    try:
        yield PrometheusHook(registry)
    finally:
        close_files()


class Serving:
    """A worker that runs, and can be told to end. What happens to it is logged."""

    def __init__(self, worker: Worker, namespace: str) -> None:
        self._worker = worker
        self._namespace = namespace
        self._running = asyncio.get_running_loop().create_task(worker.run())
        self._aborting: asyncio.Task[None] | None = None

    @property
    def aborted(self) -> bool:
        return self._aborting is not None

    def drain(self, **why: str) -> None:
        """Let it end what runs. To be told once."""
        _LOGGER.info("draining", **why, calls=self._worker.in_flight, worker=self._worker.name)
        self._running.cancel()

    def abort(self, **why: str) -> None:
        """Let it end at once. Idempotent."""
        if self._aborting is None:
            _LOGGER.warning("aborting", **why, calls=self._worker.in_flight, worker=self._worker.name)
            self._aborting = asyncio.get_running_loop().create_task(self._worker.abort())

    async def ended(self) -> None:
        """Return when it has ended. Raises what ended it, if that was not asked for."""
        starting = asyncio.get_running_loop().create_task(self._worker.started.wait())
        try:
            await asyncio.wait((self._running, starting), return_when=asyncio.FIRST_COMPLETED)
            if self._worker.started.is_set():
                share = {"providers": self._worker.providers, "lanes": self._worker.lanes}
                _LOGGER.info("serving", **share, namespace=self._namespace, worker=self._worker.name)
            await asyncio.wait((self._running,))
        finally:
            starting.cancel()
        if self._aborting is not None:
            await self._aborting
        if not self._running.cancelled():
            self._running.result()
        if self._aborting is None:
            _LOGGER.info("stopped", worker=self._worker.name)
