"""A worker in this process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.adapters import connect
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.registries import load_registry
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator

    from grundlag_bus.cli.worker.options import WorkerOptions

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
        yield Worker(
            transport,
            registry,
            providers=options.providers or None,
            lanes=options.lanes or None,
            concurrency=options.concurrency_of(registry),
            grace=options.grace,
        )
    finally:
        await transport.close()


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
