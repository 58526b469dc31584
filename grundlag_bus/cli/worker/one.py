"""A worker in this process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.adapters import connect
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.registries import load_registry
from grundlag_bus.cli.worker.port import answering
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.telemetry import ignore
from grundlag_bus.workers import Worker
from grundlag_bus.workers.ledger import Ledger

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator

    from grundlag_bus.cli.worker.options import WorkerOptions
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.telemetry.prometheus import PrometheusHook

_LOGGER = structlog.get_logger("grundlag_bus.cli")


@dataclass(frozen=True, slots=True)
class OpenWorker:
    """A worker, and what counts for the port: None where nobody asks."""

    worker: Worker
    counts: PrometheusHook | None

    def metrics(self) -> bytes:
        """Write what was counted here. Called in any thread."""
        from grundlag_bus.telemetry.exposition import expose  # noqa: PLC0415  slow to import

        return b"" if self.counts is None else expose(self.counts.collectors, [self.worker.status()])


async def work(options: WorkerOptions) -> int:
    """Serve until a signal drains the worker; a second one aborts. Raises ConfigurationError, TransportError."""
    async with open_worker(options, counting=options.health_port is not None) as opened:
        worker = opened.worker
        with answering(options, live=worker.live, ready=worker.ready, metrics=opened.metrics):
            return await _until_signalled(Serving(worker, options.namespace))


async def _until_signalled(serving: Serving) -> int:
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
async def open_worker(options: WorkerOptions, *, counting: bool) -> AsyncIterator[OpenWorker]:
    """Make the worker that was asked for, and close its transport at the end."""
    registry = await load_registry(options.spec)
    if options.keys_file is not None:
        registry.share_keys(SealKeys.load(options.keys_file))
    counts = _counts(registry) if counting else None
    transport = connect(options.url, namespace=options.namespace).transport
    assert transport is not None  # noqa: S101  for mypy: a bus by its address has one
    async with AsyncExitStack() as opened:
        opened.push_async_callback(transport.close)
        ledger = None
        if options.ledger is not None:
            from grundlag_bus.store.store import Store  # noqa: PLC0415  slow to import, and often not needed

            ledger = Ledger(await opened.enter_async_context(await Store.open(options.ledger)))
        worker = Worker(
            transport,
            registry,
            providers=options.providers or None,
            lanes=options.lanes or None,
            concurrency=options.concurrency_of(registry),
            grace=options.grace,
            hook=ignore if counts is None else counts,
            ledger=ledger,
        )
        yield OpenWorker(worker, counts)


def _counts(registry: ProviderRegistry) -> PrometheusHook:
    from grundlag_bus.telemetry.prometheus import PrometheusHook  # noqa: PLC0415  slow to import

    return PrometheusHook(registry)


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
