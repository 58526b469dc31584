"""Workers come and go, drain, die and lose their connections, over a slow database: each long call ends once.

Under a clock of its own. What looks after a call is never lost, and nothing does when it has ended.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from grundlag_bus import (
    ActionContext,
    Completed,
    Defer,
    Ledger,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    Reply,
    Retry,
    Store,
    ToolContext,
    Worker,
)
from grundlag_bus.adapters.bus import TransportBus
from grundlag_bus.store.tables import calls
from grundlag_bus.transport import MemoryBus
from tests.support.hosts import RunningWorker
from tests.support.virtual_time import VirtualLoop

LEASE = 6.0
SLOW = 1.6
"""Seconds that a transaction waits before and after it, at most: some leases cannot be renewed in time."""


class Walk(BaseModel):
    """fail: attempts that fail on their way; defer: whether it does so once."""

    steps: int
    fail: int
    defer: bool


class Fleet:
    """Workers of one action in memory, and what is random of them."""

    def __init__(self, loop: VirtualLoop, store: Store, seed: int) -> None:
        self.loop = loop
        self.store = store
        self.chance = random.Random(seed)
        self.bus = MemoryBus(clock=loop.now)
        self.workers: list[RunningWorker] = []
        self.hikes = Provider("hikes", name="Hikes")
        retry = Retry(on=ConnectionError, attempts=9, backoff=1)

        @self.hikes.action("walk", name="Walk", lane="long", crashes=100, retry=retry)
        async def walk(way: Walk, ctx: ActionContext) -> int:
            at = ctx.checkpointed or 0
            while at < way.steps:
                await asyncio.sleep(self.chance.uniform(0, 6))
                at += 1
                await ctx.checkpoint(at)
                if ctx.attempt <= way.fail:
                    raise ConnectionError
                if way.defer and ctx.deferred is None:
                    raise Defer({"rested": True}, after=self.chance.choice([0, 3]))
            return at

    def transport(self) -> MemoryTransport:
        return MemoryTransport(bus=self.bus, clock=self.loop.now)

    async def add(self) -> None:
        transport = self.transport()
        ledger = Ledger(self.store, lease=LEASE)
        worker = Worker(
            transport, ProviderRegistry([self.hikes]), ledger=ledger, grace=self.chance.choice([0, 2]), concurrency=3
        )
        self.workers.append(await RunningWorker(worker, transport).started())

    async def change(self) -> None:
        what = self.chance.random()
        if what < 0.45 and self.workers:
            leaving = self.workers.pop(self.chance.randrange(len(self.workers)))
            if what < 0.22:
                await leaving.worker.abort()
            await leaving.stop()
        elif what > 0.9 and self.workers:
            transport = self.chance.choice(self.workers).transport
            assert isinstance(transport, MemoryTransport)
            transport.reconnect()
        elif len(self.workers) < 4:
            await self.add()

    async def change_for(self, seconds: float) -> None:
        until = self.loop.time() + seconds
        while self.loop.time() < until:
            await asyncio.sleep(self.chance.uniform(0, 8))
            await self.change()
        await self.add()

    async def go_by(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.bus.tick()


def slow(store: Store, chance: random.Random) -> None:
    """Let a store's transactions take a while."""
    at_once = store.transaction

    @asynccontextmanager
    async def transaction() -> AsyncIterator[AsyncConnection]:
        await asyncio.sleep(chance.uniform(0, SLOW))
        async with at_once() as connection:
            yield connection
        await asyncio.sleep(chance.uniform(0, SLOW))

    store.transaction = transaction  # type: ignore[method-assign]  # this one


async def play(fleet: Fleet) -> list[Reply]:
    ticking = asyncio.create_task(fleet.go_by())
    await fleet.add()
    async with TransportBus(fleet.transport()) as bus:

        async def ask() -> Reply:
            way = {
                "steps": fleet.chance.randint(1, 8),
                "fail": fleet.chance.choice([0, 0, 1, 2]),
                "defer": fleet.chance.random() < 0.5,
            }
            await asyncio.sleep(fleet.chance.uniform(0, 60))
            return await bus.call("hikesWalk", way, ToolContext(timeout=3000))

        asking = [asyncio.create_task(ask()) for _ in range(15)]
        await fleet.change_for(120)
        replies = await asyncio.gather(*asking)
        await asyncio.sleep(4 * LEASE)
        for worker in fleet.workers:
            await worker.stop()
    ticking.cancel()
    return replies


@pytest.mark.parametrize("seed", [45, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20))])
def test_each_call_ends_once_and_nothing_is_left(seed: int, tmp_path: Path) -> None:
    async def in_its_time() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with loop.waits():
            store = await Store.open(f"sqlite:///{tmp_path}/ledger.sqlite")
        loop.keeps_time_of(store)
        fleet = Fleet(loop, store, seed)
        slow(store, fleet.chance)
        replies = await play(fleet)
        assert [reply for reply in replies if not isinstance(reply.response, Completed)] == []
        async with store.transaction() as connection:
            rows = (await connection.execute(calls.select())).all()
        left = [row.call_id for row in rows if row.phase != "ended" or row.copy or row.mailboxes or row.lease_until]
        assert left == []
        queue = fleet.bus.find(fleet.transport().topology.call_queue("hikes", "long").name)
        assert queue is not None
        assert len(queue) == 0
        with loop.waits():
            await store.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(in_its_time())
