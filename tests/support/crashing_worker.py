"""Workers with a ledger in processes of their own, that kill themselves at a point of a call's way.

They are forked from one process that has everything imported: a test has a dozen of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from multiprocessing.context import ForkServerContext, ForkServerProcess
    from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """What such a worker works with, which drains at SIGTERM.

    point: at which it kills itself, None for never; long: whether it serves `long_actions`; consumer_timeout: seconds
    that the broker waits for it, None for what a lane says; started: a file that is there once it serves.
    """

    url: str
    namespace: str
    keys: str
    store_url: str
    lease: float
    point: str | None = None
    long: bool = False
    consumer_timeout: float | None = None
    started: Path | None = None


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.crashing_worker", "tests.support.long_actions"])
    return context


@asynccontextmanager
async def crashing_worker(setting: Setting) -> AsyncIterator[ForkServerProcess]:
    """Start one; it is killed in the end if it still runs."""
    process = _context().Process(target=_serve, args=(setting,))
    # On a busy machine it takes a second, in which other workers of this process would lose their leases.
    await asyncio.to_thread(process.start)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()


def _serve(setting: Setting) -> None:
    asyncio.run(_work(setting))


async def _work(setting: Setting) -> None:
    from grundlag_bus import Ledger, RabbitTransport, SealKeys, Store, Worker  # noqa: PLC0415  in the process alone
    from grundlag_bus.workers import lanes  # noqa: PLC0415  the same
    from grundlag_bus.workers.ledger import failpoints  # noqa: PLC0415  the same
    from tests.support import contract_registry, long_actions  # noqa: PLC0415  the same

    def kill(point: str) -> None:
        if point == setting.point:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = kill
    if setting.consumer_timeout is not None:
        lanes.MAIN = lanes.Lane(limit=setting.consumer_timeout, consumer_timeout=setting.consumer_timeout)
    async with await Store.open(setting.store_url) as store:
        transport = RabbitTransport(setting.url, namespace=setting.namespace)
        offers = long_actions.make_registry if setting.long else contract_registry.make_registry
        registry = offers(SealKeys.load(setting.keys))
        worker = Worker(transport, registry, ledger=Ledger(store, lease=setting.lease), grace=0)
        running = asyncio.ensure_future(worker.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        if setting.started is not None:
            await asyncio.wait({running, asyncio.ensure_future(worker.started.wait())}, return_when="FIRST_COMPLETED")
            setting.started.touch()
        await asyncio.wait({running})
