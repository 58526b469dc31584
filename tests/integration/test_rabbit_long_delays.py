"""Delays of 1 to 130 seconds, end to end: exact to a second, and late by no more than an outage: `make long`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import accumulate

import pytest

from grundlag_bus import Bus, Completed, RabbitTransport, SealKeys, Submission, Worker, connect
from grundlag_bus.transport.ladder import levels_of
from tests.support.broker import Broker
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

LONGEST = 130


@dataclass
class Delays:
    """Submits a call for every delay, and knows when each was started."""

    bus: Bus
    worker: RunningWorker
    sent: dict[int, float] = field(default_factory=dict)
    submissions: list[Submission] = field(default_factory=list)

    async def submit(self) -> None:
        for seconds in range(1, LONGEST + 1):
            self.sent[seconds] = time.time()
            self.submissions.append(await self.bus.submit("contractStamp", {"name": str(seconds)}, delay=seconds))

    async def took(self) -> dict[int, float]:
        """Wait for every reply, and return how long after it was sent each call was started: once each."""
        for submission in self.submissions:
            assert isinstance((await submission.reply()).response, Completed)
        assert len(seen.notes) == len(self.sent)
        return {int(name): started - self.sent[int(name)] for name, started in seen.notes}

    @property
    def consumed(self) -> bool:
        state = self.worker.transport.state
        return state.connected and state.consumers_actual == state.consumers_wanted


@asynccontextmanager
async def delays_on(broker: Broker, namespace: str) -> AsyncIterator[Delays]:
    seen.reset()
    transport = RabbitTransport(broker.url, namespace=namespace)
    worker = await RunningWorker(Worker(transport, make_registry(SealKeys.generate())), transport).started()
    async with connect(broker.url, namespace=namespace) as bus:
        await bus.submit("contractEcho", {"value": 1}, delay=2**19)  # declares the ladder
        await broker.persist()
        yield Delays(bus, worker)
    await worker.stop()


async def test_delays_of_1_to_130_seconds_end_in_their_second(own_broker: Broker, namespace: str) -> None:
    async with delays_on(own_broker, namespace) as delays:
        await delays.submit()
        took = await delays.took()
    late = {seconds: after for seconds, after in took.items() if not seconds - 0.01 <= after < seconds + 1}
    assert not late


async def test_a_killed_broker_makes_them_late_by_its_outage_and_loses_and_repeats_none(
    own_broker: Broker, namespace: str
) -> None:
    """Late are only those that were to go from one queue to another, or to their worker, during the outage."""
    async with delays_on(own_broker, namespace) as delays:
        await delays.submit()
        await asyncio.sleep(20)
        killed = time.time()
        await own_broker.kill()
        await asyncio.sleep(10)
        await own_broker.start()
        await eventually(lambda: delays.consumed, within=60)
        back = time.time()
        took = await delays.took()
    wrong = {}
    for seconds, after in took.items():
        steps = accumulate(2**level for level in levels_of(seconds))
        hit = any(killed - 1 <= delays.sent[seconds] + step <= back + 1 for step in steps)
        latest = seconds + 1 + (back - killed if hit else 0)
        if not seconds - 0.01 <= after < latest:
            wrong[seconds] = after, latest
    assert not wrong
