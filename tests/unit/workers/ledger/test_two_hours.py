"""An action of two hours, under a clock of its own: it outlives its workers, goes on where it was, and ends once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    Completed,
    Ledger,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    Store,
    ToolContext,
    Worker,
)
from grundlag_bus.adapters.bus import TransportBus
from grundlag_bus.store.tables import calls
from grundlag_bus.transport import MemoryBus
from tests.support.hosts import RunningWorker
from tests.support.virtual_time import VirtualLoop

MINUTE = 60.0


class Nothing(BaseModel):
    pass


class Evening:
    """The bus, the ledger and the action of the test."""

    def __init__(self, loop: VirtualLoop, store: Store) -> None:
        self.loop = loop
        self.store = store
        self.bus = MemoryBus(clock=loop.now)
        self.starts: list[tuple[float, int]] = []
        self.films = Provider("films", name="Films")

        @self.films.action("show", name="Show a film", lane="long")
        async def show(_: Nothing, ctx: ActionContext) -> int:
            minute = ctx.checkpointed or 0
            self.starts.append((loop.passed, minute))
            while minute < 120:
                await asyncio.sleep(MINUTE)
                minute += 1
                if minute % 10 == 0:
                    await ctx.checkpoint(minute)
            return minute

    def transport(self) -> MemoryTransport:
        return MemoryTransport(bus=self.bus, clock=self.loop.now)

    async def worker(self) -> RunningWorker:
        transport = self.transport()
        ledger = Ledger(self.store, lease=2 * MINUTE)
        worker = Worker(transport, ProviderRegistry([self.films]), ledger=ledger, grace=5.0)
        return await RunningWorker(worker, transport).started()

    async def go_by(self) -> None:
        """Let what is due on the bus come."""
        while True:
            await asyncio.sleep(1)
            self.bus.tick()


async def play(loop: VirtualLoop, store: Store) -> None:
    evening = Evening(loop, store)
    ticking = asyncio.create_task(evening.go_by())
    first = await evening.worker()
    async with TransportBus(evening.transport()) as bus:
        asked = asyncio.create_task(bus.call("filmsShow", {}, ToolContext()))
        await asyncio.sleep(45 * MINUTE)
        await first.stop()  # evicted
        await asyncio.sleep(15 * MINUTE)  # nobody is there
        second = await evening.worker()
        await asyncio.sleep(25 * MINUTE)
        await second.worker.abort()  # killed
        await second.stop()
        await asyncio.sleep(5 * MINUTE)
        third = await evening.worker()
        assert (await asked).response == Completed(120)
        took = loop.passed
        await asyncio.sleep(10 * MINUTE)
        async with store.transaction() as connection:
            row = (await connection.execute(calls.select())).one()
        assert (row.phase, row.lost, row.fence, row.copy, row.mailboxes) == ("ended", 1, 3, None, "")
        topology = evening.transport().topology
        waiting = evening.bus.find(topology.call_queue("films", "long").name)
        assert waiting is not None
        assert len(waiting) == 0
        await third.stop()
    ticking.cancel()
    assert [minute for _, minute in evening.starts] == [0, 40, 60]
    second_start, third_start = (at / MINUTE for at, _ in evening.starts[1:])
    assert 60 <= second_start < 60.2, "a call that was handed over goes on at once"
    assert 90 <= third_start < 92.2, "one whose worker died does so when its lease has ended"
    assert 150 <= took / MINUTE < 152.5


def test_a_two_hour_action_goes_on_over_an_eviction_and_a_crash_and_ends_once(tmp_path: Path) -> None:
    async def evening() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with loop.waits():
            store = await Store.open(f"sqlite:///{tmp_path}/ledger.sqlite")
        loop.keeps_time_of(store)
        try:
            await play(loop, store)
        finally:
            with loop.waits():
                await store.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(evening())
