"""Workers: what they take, what they refuse, and the order in which they stop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Self

import pytest
import structlog.testing
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    BusCaller,
    Call,
    Completed,
    ConfigurationError,
    Defer,
    LocalCaller,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    RabbitTransport,
    Request,
    SealKeys,
    ServiceRegistry,
    Worker,
)
from grundlag_bus.errors import PublishRefusedError, PublishUnsureError, TransportError
from grundlag_bus.schema.envelope import encode_call, new_call_id
from grundlag_bus.transport import Message
from grundlag_bus.transport.memory import MemoryBus
from grundlag_bus.transport.topology import Route
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker
from tests.support.transports import Inbox


class Nothing(BaseModel):
    pass


class Told:
    """What the actions of one test say and wait for."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.notes: list[str] = []
        self.gate = threading.Event()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def notes(told: Told) -> Provider:
    provider = Provider("notes", name="Notes")

    @provider.action("hold", name="Hold")
    async def hold(_: Nothing, ctx: ActionContext) -> bool:
        told.running += 1
        told.most = max(told.most, told.running)
        await eventually(told.gate.is_set)
        told.running -= 1
        return ctx.draining

    @provider.action("holdInThread", name="Hold in a thread")
    def hold_in_thread(_: Nothing) -> None:
        told.notes.append("held")
        told.gate.wait(60)

    @provider.action("stubborn", name="Swallow the cancellation")
    async def stubborn(_: Nothing) -> str:
        told.running += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.notes.append("swallowed")
        return "all the same"

    @provider.action("slow", name="Slow", lane="slow")
    async def slow(_: Nothing) -> str:
        return "slow"

    return provider


@pytest.fixture
async def transport() -> AsyncIterator[MemoryTransport]:
    transport = MemoryTransport(bus=MemoryBus())
    await transport.open()
    yield transport
    await transport.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}


class Serving:
    """A worker that serves, and a caller beside it."""

    def __init__(self, transport: MemoryTransport, worker: Worker) -> None:
        self.caller = BusCaller(transport)
        self.running = RunningWorker(worker, transport)

    @property
    def worker(self) -> Worker:
        return self.running.worker

    async def __aenter__(self) -> Self:
        await self.running.started()
        await self.caller.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.caller.close()
        await self.running.stop()

    def call(self, action_id: str, *, lane: str = "main", timeout: float = 60) -> asyncio.Task[object]:
        call = Call(new_call_id(), "notes", action_id, Request({}), time.time() + timeout, lane)

        async def result() -> object:
            response = (await self.caller.call(call)).response
            return response.result if isinstance(response, Completed) else response

        return asyncio.create_task(result())


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_concurrency_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="concurrency=0 runs nothing"):
        Worker(MemoryTransport(), ProviderRegistry(), concurrency=0)


def test_interrupting_actions_need_keys_to_share_where_the_bus_outlives_the_process() -> None:
    provider = Provider("notes", name="Notes")

    @provider.action("ask", name="Ask", answer=Nothing)
    async def ask(_: Nothing, ctx: ActionContext) -> None: ...

    transport = RabbitTransport("amqp://localhost")
    with pytest.raises(ConfigurationError) as raised:
        Worker(transport, ProviderRegistry([provider]))
    assert "notes.ask may interrupt" in str(raised.value)
    assert "grundlag-bus keys new FILE" in str(raised.value)
    Worker(transport, ProviderRegistry([provider], keys=SealKeys.generate()))
    Worker(MemoryTransport(), ProviderRegistry([provider]))


def test_each_worker_has_a_name_of_its_own() -> None:
    registry = ProviderRegistry()
    assert Worker(MemoryTransport(), registry).name != Worker(MemoryTransport(), registry).name


async def test_a_worker_that_cannot_open_its_services_says_why(transport: MemoryTransport, notes: Provider) -> None:
    class Broken(ProviderRegistry):
        async def __aenter__(self) -> Self:
            raise ConnectionError("no database")

    worker = Worker(transport, Broken([notes]))
    with pytest.raises(ConnectionError, match="no database"):
        await worker.run()
    assert not worker.started.is_set()


# --- serving ----------------------------------------------------------------------------------------------------------


async def test_no_more_calls_run_at_once_than_the_concurrency(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]), concurrency=3)) as serving:
        calls = [serving.call("hold") for _ in range(10)]
        await eventually(lambda: told.running == 3)
        await asyncio.wait(calls, timeout=0.02)
        assert serving.worker.in_flight == 3
        told.gate.set()
        await asyncio.gather(*calls)
        assert told.most == 3


async def test_as_many_calls_run_in_threads_as_the_concurrency_says(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]), concurrency=100)) as serving:
        calls = [serving.call("holdInThread") for _ in range(100)]
        await eventually(lambda: len(told.notes) == 100)
        told.gate.set()
        await asyncio.gather(*calls)


async def given_up(serving: Serving, told: Told) -> Call:
    """Make a call that is given up while its thread works, and return it: on a busy machine not the first that ends."""
    for timeout in (0.05, 0.5, 5.0, 30.0):
        call = Call(new_call_id(), "notes", "holdInThread", Request({}), time.time() + timeout)
        reply = await serving.caller.call(call)
        assert getattr(reply.response, "code", None) == "deadline_exceeded"
        if told.notes:
            return call
    raise AssertionError("It never began.")


async def test_a_thread_keeps_its_slot_until_it_ends(transport: MemoryTransport, notes: Provider, told: Told) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]), concurrency=1)) as serving:
        await given_up(serving, told)
        second = serving.call("holdInThread")
        await asyncio.wait({second}, timeout=0.05)
        assert told.notes == ["held"]
        told.gate.set()
        await second
        assert told.notes == ["held", "held"]


async def test_a_full_lane_blocks_no_other(transport: MemoryTransport, notes: Provider, told: Told) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]), concurrency=1)) as serving:
        calls = [serving.call("hold") for _ in range(3)]
        await eventually(lambda: told.running == 1)
        assert await serving.call("slow", lane="slow") == "slow"
        told.gate.set()
        await asyncio.gather(*calls)


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"v": 2}', b'{"v": 1, "callId": 3}', b"[]"])
async def test_what_is_no_call_is_dead_lettered(transport: MemoryTransport, notes: Provider, body: bytes) -> None:
    dead = Inbox(ack=True)
    await transport.subscribe(transport.topology.dead_queue, dead, prefetch=10)
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        route = transport.topology.call_route("notes", "main")
        await transport.publish(route, Message(body, "call"), deadline=time.time() + 60)
        assert await dead.holds(1) == [body]
        assert serving.worker.in_flight == 0


async def test_a_call_that_meets_a_defect_of_ours_is_dead_lettered_and_does_not_come_again(
    transport: MemoryTransport, notes: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def defect(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(LocalCaller, "run", defect)
    dead = Inbox(ack=True)
    await transport.subscribe(transport.topology.dead_queue, dead, prefetch=10)
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        call = serving.call("hold")
        with structlog.testing.capture_logs() as logs:
            await dead.holds(1)
        assert [line["event"] for line in logs] == ["serving_failed"]
        assert serving.worker.in_flight == 0
        call.cancel()


async def test_a_call_that_nobody_waits_for_is_run_and_settled(transport: MemoryTransport, notes: Provider) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        call = Call(new_call_id(), "notes", "slow", Request({}), time.time() + 60, "slow")
        for reply_to in (None, "nobody"):
            message = Message(encode_call(call), "call", correlation_id=call.call_id, reply_to=reply_to)
            await transport.publish(transport.topology.call_route("notes", "slow"), message, deadline=time.time() + 60)
        assert await serving.call("slow", lane="slow") == "slow"
        await eventually(lambda: serving.worker.in_flight == 0)


async def test_a_call_that_comes_again_while_it_runs_runs_once_and_every_mailbox_gets_the_reply(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        other = BusCaller(transport)
        await other.open()
        call = Call(new_call_id(), "notes", "hold", Request({}), time.time() + 60)
        replies = [asyncio.create_task(caller.call(call)) for caller in (serving.caller, other)]
        await eventually(lambda: told.running == 1)
        await asyncio.wait(replies, timeout=0.02)
        told.gate.set()
        first, second = await asyncio.gather(*replies)
        assert first.response == second.response == Completed(result=False)
        assert told.most == 1
        await other.close()


@pytest.mark.parametrize("error", [PublishUnsureError("cut"), PublishRefusedError("full")])
async def test_a_reply_is_published_until_it_is_confirmed(notes: Provider, told: Told, error: TransportError) -> None:
    class Failing(MemoryTransport):
        """Fails to confirm the first replies."""

        failures = 3

        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            if message.type == "reply" and self.failures:
                self.failures -= 1
                await asyncio.sleep(0)
                raise error
            await super().publish(route, message, deadline=deadline, written=written)

    transport = Failing(bus=MemoryBus())
    told.gate.set()
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        assert await serving.call("hold") is False
        await eventually(lambda: serving.worker.in_flight == 0)
    assert (transport.failures, told.most) == (0, 1)


@pytest.mark.parametrize("kind", ["reply", "generation"])
async def test_a_call_is_settled_when_the_broker_has_what_became_of_it_and_not_before(told: Told, kind: str) -> None:
    class Silent(MemoryTransport):
        """Takes nothing from this worker, and does not say so."""

        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            if message.type != "manifest":
                told.notes.append("published")
                await asyncio.sleep(60)
            await super().publish(route, message, deadline=deadline, written=written)

    provider = Provider("notes", name="Notes")

    @provider.action("later", name="Later")
    async def later(_: Nothing) -> str:
        told.notes.append("started")
        if kind == "generation" and told.notes.count("started") == 1:
            raise Defer(after=1)
        return "done"

    bus = MemoryBus()
    silent, well = Silent(bus=bus), MemoryTransport(bus=bus)
    doomed = await RunningWorker(Worker(silent, ProviderRegistry([provider])), silent).started()
    caller = BusCaller(well)
    await caller.open()
    call = Call(new_call_id(), "notes", "later", Request({}), time.time() + 60)
    waiting = asyncio.create_task(caller.call(call))
    await eventually(lambda: told.notes == ["started", "published"])
    await doomed.worker.abort()
    await doomed.stop()
    heir = await RunningWorker(Worker(well, ProviderRegistry([provider])), well).started()
    assert (await asyncio.wait_for(waiting, 5)).response == Completed("done")
    await caller.close()
    await heir.stop()


async def test_who_asks_while_the_reply_is_on_its_way_gets_one_too(notes: Provider, told: Told) -> None:
    class Slow(MemoryTransport):
        """Confirms a reply when it is told to."""

        confirm = asyncio.Event()

        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            await super().publish(route, message, deadline=deadline, written=written)
            if message.type == "reply":
                await self.confirm.wait()

    bus = MemoryBus()
    worker_side, first_side, second_side = Slow(bus=bus), MemoryTransport(bus=bus), MemoryTransport(bus=bus)
    running = await RunningWorker(Worker(worker_side, ProviderRegistry([notes])), worker_side).started()
    first, second = BusCaller(first_side), BusCaller(second_side)
    await first.open()
    await second.open()
    told.gate.set()
    call = Call(new_call_id(), "notes", "hold", Request({}), time.time() + 60)
    await first.call(call)
    late = asyncio.create_task(second.call(call))
    await asyncio.wait({late}, timeout=0.02)
    Slow.confirm.set()
    async with asyncio.timeout(5):
        assert (await late).response == Completed(result=False)
    assert told.most == 1
    for each in (first, second):
        await each.close()
    await running.stop()
    for side in (first_side, second_side):
        await side.close()


async def test_who_asks_while_a_thread_of_an_ended_call_still_works_gets_a_reply(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        other = BusCaller(transport)
        await other.open()
        call = await given_up(serving, told)
        late = asyncio.create_task(other.call(replace(call, deadline=time.time() + 60)))
        await asyncio.wait({late}, timeout=0.02)
        told.gate.set()
        async with asyncio.timeout(5):
            assert getattr((await late).response, "code", None) == "deadline_exceeded"
        assert told.notes == ["held"]
        await other.close()


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_running_actions_know_that_their_worker_drains(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    worker = Worker(transport, ProviderRegistry([notes]))
    async with Serving(transport, worker) as serving:
        told.gate.set()
        assert await serving.call("hold") is False
        told.gate.clear()
        call = serving.call("hold")
        await eventually(lambda: told.running == 1)
        serving.running.serving.cancel()
        await asyncio.sleep(0)
        assert not worker.started.is_set()
        told.gate.set()
        assert await call is True
        await asyncio.wait({serving.running.serving})
        serving.running.serving = asyncio.create_task(worker.run())
        assert await serving.call("hold") is False


async def test_a_second_cancellation_ends_the_grace_time(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]), grace=3600)) as serving:
        call = serving.call("hold")
        await eventually(lambda: told.running == 1)
        serving.running.serving.cancel()
        await asyncio.wait({serving.running.serving}, timeout=0.02)
        assert not serving.running.serving.done()
        serving.running.serving.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait({serving.running.serving})
        assert serving.worker.in_flight == 0
        assert not call.done()  # it is back in its queue
        call.cancel()


async def test_a_calls_services_close_before_the_workers(transport: MemoryTransport) -> None:
    closed: list[str] = []

    class Engine: ...

    class Session: ...

    async def engine() -> AsyncIterator[Engine]:
        yield Engine()
        closed.append("engine")

    async def session() -> AsyncIterator[Session]:
        try:
            yield Session()
        finally:
            await asyncio.sleep(0.02)  # rolls back
            closed.append("session")

    services = ServiceRegistry()
    services.register(Engine, engine)
    services.register(Session, session, scope="call")
    provider = Provider("notes", name="Notes")
    begun = asyncio.Event()

    @provider.action("hold", name="Hold")
    async def hold(_: Nothing, ctx: ActionContext) -> None:
        await ctx.services.get(Engine)
        await ctx.services.get(Session)
        begun.set()
        await asyncio.sleep(60)

    registry = ProviderRegistry([provider], services=services)
    async with Serving(transport, Worker(transport, registry, grace=0)) as serving:
        call = serving.call("hold")
        await begun.wait()
        await serving.running.stop()
        assert closed == ["session", "engine"]
        call.cancel()


async def test_an_aborted_worker_replies_nothing_also_where_an_action_goes_on(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    async with Serving(transport, Worker(transport, ProviderRegistry([notes]))) as serving:
        call = serving.call("stubborn")
        await eventually(lambda: told.running == 1)
        await serving.worker.abort()
        await serving.running.serving
        assert told.notes == ["swallowed"]
        await asyncio.wait({call}, timeout=0.02)
        assert not call.done()
        call.cancel()


async def test_aborting_settles_nothing_and_the_worker_may_serve_again(
    transport: MemoryTransport, notes: Provider, told: Told
) -> None:
    worker = Worker(transport, ProviderRegistry([notes]))
    async with Serving(transport, worker) as serving:
        call = serving.call("hold")
        await eventually(lambda: told.running == 1)
        await worker.abort()
        await serving.running.serving
        assert not call.done()
        told.gate.set()
        serving.running.serving = asyncio.create_task(worker.run())
        assert await call is False
        assert serving.caller.late_replies == 0


async def test_a_call_that_was_replied_to_is_not_given_back_while_its_thread_still_works(
    transport: MemoryTransport, told: Told
) -> None:
    provider = Provider("notes", name="Notes")

    @provider.action("hold", name="Hold", idle_timeout=0.02)
    def hold(_: Nothing) -> None:
        told.notes.append("held")
        told.gate.wait(60)

    registry = ProviderRegistry([provider])
    async with Serving(transport, Worker(transport, registry, grace=0)) as serving:
        assert getattr(await serving.call("hold"), "details", None) == {"published": True, "idle": 0.02}
        await serving.running.stop()
        waits = transport._bus.find(transport.topology.call_queue("notes", "main").name)
        assert waits is not None
        assert not len(waits)
        told.gate.set()


async def test_who_waits_for_a_call_that_may_not_start_twice_is_told_when_its_worker_stops_before_it_is_sent_on(
    told: Told,
) -> None:
    class Silent(MemoryTransport):
        """Takes no generation of a call."""

        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            if message.type == "call":
                told.notes.append("published")
                await asyncio.sleep(60)
            await super().publish(route, message, deadline=deadline, written=written)

    provider = Provider("notes", name="Notes")

    @provider.action("later", name="Later", rerun=False)
    async def later(_: Nothing) -> None:
        raise Defer(after=1)

    bus = MemoryBus()
    silent, well = Silent(bus=bus), MemoryTransport(bus=bus)
    doomed = await RunningWorker(Worker(silent, ProviderRegistry([provider]), grace=0), silent).started()
    caller = BusCaller(well)
    await caller.open()
    call = Call(new_call_id(), "notes", "later", Request({}), time.time() + 60)
    waiting = asyncio.create_task(caller.call(call))
    await eventually(lambda: told.notes == ["published"])
    await doomed.stop()
    async with asyncio.timeout(5):
        assert getattr((await waiting).response, "code", None) == "outcome_unknown"
    await caller.close()


async def test_a_call_that_is_cancelled_while_its_worker_drains_leaves_nothing_running(
    transport: MemoryTransport, told: Told
) -> None:
    provider = Provider("notes", name="Notes")

    @provider.action("deaf", name="Swallow the cancellation")
    async def deaf(_: Nothing) -> None:
        told.running += 1
        while not told.gate.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)

    registry = ProviderRegistry([provider])
    async with Serving(transport, Worker(transport, registry, grace=60)) as serving:
        call = Call(new_call_id(), "notes", "deaf", Request({}), time.time() + 60)
        signal = asyncio.Event()
        waiting = asyncio.create_task(serving.caller.call(call, cancel=signal))
        await eventually(lambda: told.running == 1)
        serving.running.serving.cancel()
        await asyncio.sleep(0)
        signal.set()
        (run,) = serving.worker._serving.started
        await eventually(lambda: run.oversight.cancelled)
        told.gate.set()
        assert getattr((await waiting).response, "code", None) == "cancelled"
        await asyncio.wait({serving.running.serving})
        assert not len(serving.worker._serving._beside)
