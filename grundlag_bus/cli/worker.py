"""`worker`: serve a registry's actions until a signal comes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.adapters import connect
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.registries import load_registry
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_embedded
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from grundlag_bus.providers.registry import ProviderRegistry

_LOGGER = structlog.get_logger("grundlag_bus.cli")


def serve(  # noqa: PLR0913  the command's options
    spec: str,
    *,
    url: str | None,
    namespace: str,
    concurrency: int,
    keys_file: Path | None,
    grace: float,
    level: str,
) -> int:
    """Serve until SIGTERM or SIGINT, which drains; a second one aborts. Raises ConfigurationError, TransportError."""
    if url is None:
        raise ConfigurationError(
            "A worker needs a bus: add --url amqp://user:password@host:port/vhost, or set GRUNDLAG_URL."
        )
    refuse_embedded(url)

    async def work() -> int:
        registry = await load_registry(spec)
        if keys_file is not None:
            registry.share_keys(SealKeys.load(keys_file))
        transport = connect(url, namespace=namespace).transport
        assert transport is not None  # noqa: S101  for mypy: a bus by its address has one
        try:
            worker = Worker(transport, registry, concurrency=concurrency, grace=grace)
            return await _until_signalled(worker, registry, namespace)
        finally:
            await transport.close()

    return run(work(), level=level)


async def _until_signalled(worker: Worker, registry: ProviderRegistry, namespace: str) -> int:
    loop = asyncio.get_running_loop()
    running = loop.create_task(worker.run())
    received: list[signal.Signals] = []
    aborts: list[asyncio.Task[None]] = []

    def receive(which: signal.Signals) -> None:
        received.append(which)
        if len(received) == 1:
            _LOGGER.info("draining", signal=which.name, calls=worker.in_flight)
            running.cancel()
        elif not aborts:
            _LOGGER.warning("aborting", signal=which.name, calls=worker.in_flight)
            aborts.append(loop.create_task(worker.abort()))

    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, receive, which)
    starting = loop.create_task(worker.started.wait())
    try:
        await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
        if worker.started.is_set():
            _LOGGER.info("serving", providers=sorted(registry.providers), namespace=namespace, worker=worker.name)
        await asyncio.wait((running,))
    finally:
        starting.cancel()
    await asyncio.gather(*aborts)
    if not running.cancelled():
        running.result()
    if aborts:
        return 128 + received[-1]
    _LOGGER.info("stopped", worker=worker.name)
    return Exit.COMPLETED
