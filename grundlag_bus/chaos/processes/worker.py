"""A worker process: one worker without a ledger and one with it, side by side.

`python -m grundlag_bus.chaos.processes.worker CONFIG` serves until SIGTERM, which drains it.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from grundlag_bus.chaos.history import Started
from grundlag_bus.chaos.processes.living import live
from grundlag_bus.chaos.provider import FREE, KEPT, make_registry
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.store.store import Store
from grundlag_bus.transport.rabbitmq import RabbitTransport
from grundlag_bus.workers import Worker
from grundlag_bus.workers.ledger import Ledger

if TYPE_CHECKING:
    from grundlag_bus.chaos.history import Record
    from grundlag_bus.chaos.processes.living import Life

_GRACE = 10.0


async def work(life: Life) -> None:
    """Serve until told to stop."""
    config = life.config
    keys = SealKeys.load(config.keys)

    def note(record: Record) -> None:
        life.calls += isinstance(record, Started)
        life.history.write(record)

    async with AsyncExitStack() as opened:
        store = await opened.enter_async_context(await Store.open(config.ledger))
        workers: list[Worker] = []
        for provider_id, ledger in ((FREE, None), (KEPT, Ledger(store, lease=config.lease))):
            transport = RabbitTransport(config.url, namespace=config.namespace)
            opened.push_async_callback(transport.close)
            registry = make_registry(provider_id, worker=config.name, note=note, keys=keys)
            workers.append(Worker(transport, registry, grace=_GRACE, ledger=ledger))
        await _serve(life, workers)
    life.end()


async def _serve(life: Life, workers: list[Worker]) -> None:
    """Run them until the process is to stop. Raises what ended one of them before."""
    loop = asyncio.get_running_loop()
    running = [loop.create_task(worker.run()) for worker in workers]
    stopping = loop.create_task(life.stop.wait())
    starting = loop.create_task(_started(life, workers))
    await asyncio.wait((*running, stopping), return_when=asyncio.FIRST_COMPLETED)
    for each in (*running, stopping, starting):
        each.cancel()
    ends = await asyncio.gather(*running, return_exceptions=True)
    await asyncio.wait((stopping, starting))
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def _started(life: Life, workers: list[Worker]) -> None:
    for worker in workers:
        await worker.started.wait()
    life.begin()


if __name__ == "__main__":
    live(work)
