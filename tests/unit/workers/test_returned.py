"""Calls that come back, where what they need cannot be written down or read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from grundlag_bus import Call, MemoryTransport, Provider, ProviderRegistry, Request, Worker
from grundlag_bus.errors import BusUnreachableError, PublishForbiddenError, PublishUnsureError, TopologyMismatchError
from grundlag_bus.schema.envelope import encode_call, new_call_id
from grundlag_bus.transport import MemoryBus, Message
from grundlag_bus.transport.topology import Route, Stream
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker
from tests.support.transports import Inbox, in_time


class Nothing(BaseModel):
    pass


class Faulty(MemoryTransport):
    """Lets no lone start be written, or none be read, while told so."""

    writing: Exception | None = None
    reading: Exception | None = None

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        if message.type == "start" and self.writing is not None:
            await asyncio.sleep(0)
            raise self.writing
        await super().publish(route, message, deadline=deadline, written=written)

    async def read(self, stream: Stream) -> list[bytes]:
        if stream == self.topology.starts and self.reading is not None:
            raise self.reading
        return await super().read(stream)


class Bench:
    """One call that was lost a number of times, and a worker for it."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.transport = Faulty(bus=self.bus)
        self.starts = 0
        provider = Provider("notes", name="Notes")

        @provider.action("count", name="Count")
        async def count(_: Nothing) -> None:
            self.starts += 1

        self.worker = Worker(self.transport, ProviderRegistry([provider]))

    async def lose(self, times: int, *, calls: int = 1) -> str:
        peer, inbox = MemoryTransport(bus=self.bus), Inbox()
        await peer.open()
        queue = peer.topology.call_queue("notes", "main")
        await peer.subscribe(queue, inbox, prefetch=calls)
        asked = [Call(new_call_id(), "notes", "count", Request({}), in_time()) for _ in range(calls)]
        for call in asked:
            message = Message(encode_call(call), "call")
            await peer.publish(peer.topology.call_route("notes", "main"), message, deadline=in_time())
        for lost in range(1, times + 1):
            await inbox.holds(lost * calls)
            peer.reconnect()
        await inbox.holds((times + 1) * calls)
        await peer.close()
        return asked[0].call_id

    async def serve(self) -> RunningWorker:
        return await RunningWorker(self.worker, self.transport).started()

    async def dead(self) -> int:
        peer, inbox = MemoryTransport(bus=self.bus), Inbox()
        await peer.open()
        await peer.subscribe(peer.topology.dead_queue, inbox, prefetch=10)
        await asyncio.sleep(0.05)
        await peer.close()
        return len(inbox)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_last_start_that_may_not_be_written_down_is_made_once_and_the_log_says_what_is_missing(
    bench: Bench,
) -> None:
    bench.transport.writing = PublishForbiddenError("no")
    await bench.lose(2)
    with capture_logs() as logs:
        running = await bench.serve()
        await eventually(lambda: bench.starts == 1 and not bench.worker.in_flight)
        await running.stop()
    assert await bench.dead() == 0
    [told] = [line["reason"] for line in logs if line["event"] == "lone_starts_unusable"]
    assert "give it write permission on amq.default" in told


async def test_a_call_that_is_started_again_is_named_in_the_log(bench: Bench) -> None:
    call_id = await bench.lose(1)
    with capture_logs() as logs:
        running = await bench.serve()
        await eventually(lambda: bench.starts == 1 and not bench.worker.in_flight)
        await running.stop()
    [told] = [line for line in logs if line["event"] == "call_started_again"]
    assert (told["call_id"], told["lost"], told["worker"]) == (call_id, 1, bench.worker.name)


async def test_calls_that_wait_to_run_alone_say_so_once_each(bench: Bench) -> None:
    await bench.lose(2, calls=4)
    with capture_logs() as logs:
        running = await bench.serve()
        await eventually(lambda: bench.starts == 4 and not bench.worker.in_flight)
        await running.stop()
    waited = [line["call_id"] for line in logs if line["event"] == "call_waits_to_run_alone"]
    assert (len(waited), len(set(waited))) == (4, 4)


@pytest.mark.parametrize("fault", ["writing", "reading"])
async def test_where_lone_starts_cannot_be_told_a_call_has_as_many_losses_as_starts(bench: Bench, fault: str) -> None:
    setattr(bench.transport, fault, TopologyMismatchError("no"))
    await bench.lose(3)
    running = await bench.serve()
    await asyncio.sleep(0.05)
    await eventually(lambda: not bench.worker.in_flight)
    await running.stop()
    assert (bench.starts, await bench.dead()) == (0, 1)


@pytest.mark.parametrize(
    ("fault", "error"), [("writing", PublishUnsureError("later")), ("reading", BusUnreachableError("later"))]
)
async def test_while_the_bus_does_not_answer_a_call_is_given_back(
    bench: Bench, fault: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.workers.returned.NOTE_WITHIN", 0.05)
    monkeypatch.setattr("grundlag_bus.workers.returned.PAUSE", 0.05)
    setattr(bench.transport, fault, error)
    await bench.lose(3)
    running = await bench.serve()
    await asyncio.sleep(0.3)
    assert bench.starts == 0
    setattr(bench.transport, fault, None)
    await eventually(lambda: bench.starts == 1 and not bench.worker.in_flight)
    await running.stop()
    assert await bench.dead() == 0
