"""Calls that kill their worker: they end as dead letters, and take nobody with them."""

from __future__ import annotations

import asyncio
import time

import orjson
import pytest
from pydantic import BaseModel

from grundlag_bus import BusCaller, Call, Completed, Failed, MemoryTransport, Provider, ProviderRegistry, Reply, Request
from grundlag_bus.schema.dead_letter import call_of
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.transport.memory import MemoryBus
from grundlag_bus.workers import Worker
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker
from tests.support.transports import Inbox


class Named(BaseModel):
    name: str


class Told:
    """starts: the calls in the order of their starts, each with those that ran beside it."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, frozenset[str]]] = []
        self.running: set[str] = set()
        self.gate = asyncio.Event()

    def times(self, name: str) -> int:
        return sum(started == name for started, _ in self.starts)


def provider(told: Told, *, crashes: int = 3, rerun: bool = True) -> Provider:
    demo = Provider("demo", name="Demo")

    @demo.action("hold", name="Hold", crashes=crashes, rerun=rerun)
    async def hold(named: Named) -> Named:
        told.starts.append((named.name, frozenset(told.running)))
        told.running.add(named.name)
        try:
            await told.gate.wait()
        finally:
            told.running.discard(named.name)
        return named

    return demo


def make_call(name: str) -> Call:
    return Call(new_call_id(), "demo", "hold", Request({"name": name}), time.time() + 60, sent_at=time.time())


async def start(bus: MemoryBus, registry: ProviderRegistry) -> RunningWorker:
    transport = MemoryTransport(bus=bus)
    return await RunningWorker(Worker(transport, registry, concurrency=10, grace=0), transport).started()


async def kill(running: RunningWorker) -> None:
    """As SIGKILL does: what it had in hand is lost, counted by the broker, and handed out to another."""
    assert isinstance(running.transport, MemoryTransport)
    await running.worker._intake.stop()
    running.transport.reconnect()
    await running.worker.abort()
    await running.stop()


@pytest.fixture
def told() -> Told:
    return Told()


async def killed_thrice(told: Told, registry: ProviderRegistry) -> Reply:
    """Have a call's worker die each time that it is started, and return how the call ends."""
    bus = MemoryBus()
    caller = BusCaller(MemoryTransport(bus=bus))
    await caller.open()
    running = await start(bus, registry)
    ending = asyncio.create_task(caller.call(make_call("killer")))
    for starts in range(1, 4):
        await eventually(lambda starts=starts: told.times("killer") == starts or ending.done())  # type: ignore[misc]  # bound in the loop
        if ending.done():
            break
        await kill(running)
        running = await start(bus, registry)
    reply = await asyncio.wait_for(ending, 10)
    dead = Inbox(ack=True)
    graves = await running.transport.subscribe(running.transport.topology.dead_queue, dead, prefetch=10)
    if isinstance(reply.response, Failed) and reply.response.code == "attempts_exhausted":
        await eventually(lambda: len(dead) == 1)
        letter = orjson.loads(dead.bodies[0])
        assert letter["reason"]["code"] == "attempts_exhausted"
        assert letter["worker"] == running.worker.name
        assert call_of(dead.bodies[0]).call_id == reply.call_id
    await graves.close()
    await running.stop()
    await caller.close()
    return reply


async def test_a_call_that_kills_its_worker_is_a_dead_letter_after_its_starts(told: Told) -> None:
    reply = await killed_thrice(told, ProviderRegistry([provider(told)]))
    assert isinstance(reply.response, Failed)
    assert (reply.response.code, reply.response.details) == ("attempts_exhausted", {"starts": 3})
    assert told.times("killer") == 3


async def test_what_must_not_run_twice_is_not_started_again(told: Told) -> None:
    reply = await killed_thrice(told, ProviderRegistry([provider(told, rerun=False)]))
    assert isinstance(reply.response, Failed)
    assert reply.response.code == "outcome_unknown"
    assert told.times("killer") == 1


async def test_the_last_start_of_a_call_is_alone_and_the_worker_goes_on_afterwards(told: Told) -> None:
    """So its neighbours, which were lost as often as it, are not dragged along: each has its last start for itself."""
    bus = MemoryBus()
    registry = ProviderRegistry([provider(told)])
    caller = BusCaller(MemoryTransport(bus=bus))
    await caller.open()
    running = await start(bus, registry)
    names = ["a", "b", "c"]
    calls = [asyncio.create_task(caller.call(make_call(name))) for name in names]
    for _ in range(2):
        before = len(told.starts)
        await eventually(lambda before=before: len(told.starts) >= before + 3 or len(told.running) == 3)  # type: ignore[misc]  # bound in the loop
        await kill(running)
        told.running.clear()
        running = await start(bus, registry)
    last = len(told.starts)
    await eventually(lambda: len(told.starts) > last)
    assert len(told.running) == 1
    told.gate.set()
    assert [(await call).response for call in calls] == [Completed({"name": name}) for name in names]
    assert sorted(name for name, _ in told.starts[-3:]) == names
    assert all(beside == frozenset() for _, beside in told.starts[-3:])
    assert (await caller.call(make_call("later"))).response == Completed({"name": "later"})
    await running.stop()
    await caller.close()


async def test_a_worker_that_stops_before_a_last_start_gives_the_call_back(told: Told) -> None:
    bus = MemoryBus()
    registry = ProviderRegistry([provider(told, crashes=2)])
    caller = BusCaller(MemoryTransport(bus=bus))
    await caller.open()
    running = await start(bus, registry)
    lost = asyncio.create_task(caller.call(make_call("lost")))
    await eventually(lambda: told.times("lost") == 1)
    await kill(running)
    told.running.clear()
    other = asyncio.create_task(caller.call(make_call("other")))
    running = await start(bus, registry)
    await eventually(lambda: told.times("other") == 1)
    assert told.times("lost") == 1, "it waits until it is alone"
    await running.stop()
    told.gate.set()
    running = await start(bus, registry)
    assert (await lost).response == Completed({"name": "lost"})
    assert (await other).response == Completed({"name": "other"})
    await running.stop()
    await caller.close()
