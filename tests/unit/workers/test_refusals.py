"""What a worker refuses to do, and what no call can make it do to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    BusCaller,
    Call,
    Completed,
    Defer,
    Failed,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    Reply,
    Request,
    Retry,
    Worker,
)
from grundlag_bus.errors import PublishForbiddenError
from grundlag_bus.schema.envelope import decode_call, encode_call, new_call_id
from grundlag_bus.transport import Message
from grundlag_bus.transport.memory import MemoryBus
from grundlag_bus.transport.topology import Route
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker
from tests.support.transports import Inbox


class Nothing(BaseModel):
    pass


class Told:
    """runs: which actions ran; gate: what `hold` waits for."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.gate = asyncio.Event()


def providers(told: Told) -> list[Provider]:
    demo, admin = Provider("demo", name="Demo"), Provider("admin", name="Admin")

    @demo.action("hold", name="Hold")
    async def hold(_: Nothing) -> bool:
        told.runs.append("hold")
        await told.gate.wait()
        return True

    @demo.action("giveUp", name="Give up")
    async def give_up(_: Nothing) -> bool:
        told.runs.append("giveUp")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return True

    @admin.action("wipe", name="Wipe", lane="main")
    async def wipe(_: Nothing) -> bool:
        told.runs.append("wipe")
        return True

    return [demo, admin]


@asynccontextmanager
async def serving(transport: MemoryTransport, told: Told) -> AsyncIterator[BusCaller]:
    running = await RunningWorker(Worker(transport, ProviderRegistry(providers(told))), transport).started()
    caller = BusCaller(transport)
    await caller.open()
    try:
        yield caller
    finally:
        told.gate.set()
        await caller.close()
        await running.stop()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def transport() -> MemoryTransport:
    return MemoryTransport(bus=MemoryBus())


def make_call(action_id: str, provider_id: str = "demo", **fields: Any) -> Call:
    call = Call(new_call_id(), provider_id, action_id, Request({}), time.time() + 60, sent_at=time.time())
    return replace(call, **fields)


def code_of(reply: Reply) -> str:
    assert isinstance(reply.response, Failed)
    return reply.response.code


async def test_an_envelope_is_served_only_from_the_queue_of_the_provider_that_it_names(
    transport: MemoryTransport, told: Told
) -> None:
    """Who may publish where is the broker's permission: the envelope must not lead past it."""
    async with serving(transport, told):
        dead = Inbox()
        graves = await transport.subscribe(transport.topology.dead_queue, dead, prefetch=10)
        body = encode_call(make_call("wipe", "admin"))
        route = transport.topology.call_route("demo", "main")
        await transport.publish(route, Message(body, "call"), deadline=time.time() + 5)
        await eventually(lambda: len(dead.deliveries) == 1)
        assert dead.deliveries[0].message.body == body
        assert told.runs == []
        await graves.close()


async def test_an_envelope_is_served_only_from_the_lane_that_it_names(transport: MemoryTransport, told: Told) -> None:
    async with serving(transport, told):
        dead = Inbox()
        graves = await transport.subscribe(transport.topology.dead_queue, dead, prefetch=10)
        body = encode_call(make_call("hold", lane="long"))
        route = transport.topology.call_route("demo", "main")
        await transport.publish(route, Message(body, "call"), deadline=time.time() + 5)
        await eventually(lambda: len(dead.deliveries) == 1)
        assert told.runs == []
        await graves.close()


async def test_an_action_that_cancels_its_own_asyncio_task_fails_and_is_not_run_again(
    transport: MemoryTransport, told: Told
) -> None:
    async with serving(transport, told) as caller:
        assert code_of(await caller.call(make_call("giveUp"))) == "internal"
        assert told.runs == ["giveUp"]


@pytest.mark.parametrize(
    "other",
    [
        lambda call: replace(call, user_id="eve"),
        lambda call: replace(call, request=Request({"other": 1})),
        lambda call: replace(call, action_id="giveUp"),
    ],
    ids=["user", "input", "action"],
)
async def test_another_call_of_a_running_ones_id_is_refused_and_told_nothing(
    transport: MemoryTransport, told: Told, other: Callable[[Call], Call]
) -> None:
    eve = BusCaller(transport)
    async with serving(transport, told) as caller:
        await eve.open()
        call = make_call("hold", user_id="ada")
        waiting = asyncio.create_task(caller.call(call))
        await eventually(lambda: told.runs == ["hold"])
        assert code_of(await eve.call(other(call))) == "call_id_reused"
        told.gate.set()
        assert (await waiting).response == Completed(True)
        assert told.runs == ["hold"]
        await eve.close()


async def test_a_reply_that_may_not_be_published_is_not_tried_again(told: Told) -> None:
    class Strict(MemoryTransport):
        tries = 0

        async def publish(self, route: Route, message: Message, **more: Any) -> None:
            if message.type == "reply":
                self.tries += 1
                await asyncio.sleep(0)
                raise PublishForbiddenError("not yours")
            await super().publish(route, message, **more)

    transport = Strict(bus=MemoryBus())
    told.gate.set()
    async with serving(transport, told) as caller:
        assert code_of(await caller.call(make_call("hold", deadline=time.time() + 0.3))) == "deadline_exceeded"
        assert (transport.tries, told.runs) == (1, ["hold"])


async def test_every_further_cancellation_of_a_stopping_worker_brings_its_end_nearer(told: Told) -> None:
    """The second one ends the grace time, the third one the wait for calls that ignore their cancellation."""
    stubborn = Provider("demo", name="Demo")

    @stubborn.action("stay", name="Stay")
    async def stay(_: Nothing) -> bool:
        told.runs.append("stay")
        while not told.gate.is_set():
            try:
                await told.gate.wait()
            except asyncio.CancelledError:
                told.runs.append("ignored")
        return True

    transport = MemoryTransport(bus=MemoryBus())
    worker = Worker(transport, ProviderRegistry([stubborn]), grace=60)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(worker.started.wait(), 5)
    caller = BusCaller(transport)
    await caller.open()
    waiting = asyncio.create_task(caller.call(make_call("stay")))
    await eventually(lambda: told.runs == ["stay"])
    running.cancel()
    await asyncio.wait({running}, timeout=0.05)
    assert not running.done()
    running.cancel()
    await eventually(lambda: "ignored" in told.runs)
    assert not running.done()
    running.cancel()
    await asyncio.wait({running}, timeout=2)
    assert running.done()
    told.gate.set()
    waiting.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    await eventually(lambda: worker.in_flight == 0)
    await caller.close()
    await transport.close()


async def test_a_bus_with_a_clock_of_its_own_is_served_by_that_clock(told: Told) -> None:
    """It is told by nobody's other clock what is late; and when it leaps past a reply, the loop goes on."""
    ahead = [1e6]
    transport = MemoryTransport(clock=lambda: time.time() + ahead[0], bus=MemoryBus())
    async with serving(transport, told) as caller:
        call = make_call("hold", deadline=transport.now() + 60)
        waiting = asyncio.create_task(caller.call(call))
        await eventually(lambda: told.runs == ["hold"])
        told.gate.set()
        assert (await waiting).response == Completed(True)
        told.gate.clear()
        waiting = asyncio.create_task(caller.call(replace(call, call_id=new_call_id())))
        await eventually(lambda: told.runs == ["hold", "hold"])
        ahead[0] += 3600
        told.gate.set()
        assert (await asyncio.wait_for(waiting, 5)).response == Completed(True)


async def test_a_pending_cancellation_of_an_actions_own_runs_it_no_second_time(transport: MemoryTransport) -> None:
    starts = []
    demo = Provider("demo", name="Demo")

    @demo.action("leave", name="Leave a cancellation behind")
    async def leave(_: Nothing) -> bool:
        starts.append(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return True

    running = await RunningWorker(Worker(transport, ProviderRegistry([demo])), transport).started()
    caller = BusCaller(transport)
    await caller.open()
    reply = await caller.call(make_call("leave"))
    assert reply.response == Completed(True) or code_of(reply) == "internal"  # as far as the reply had come
    await eventually(lambda: running.worker.in_flight == 0)
    assert len(starts) == 1
    await caller.close()
    await running.stop()


@pytest.mark.parametrize("signal", ["retry", "last retry", "defer"])
async def test_what_can_be_neither_sent_on_nor_buried_ends_at_once_and_is_not_run_again(signal: str) -> None:
    class Strict(MemoryTransport):
        async def publish(self, route: Route, message: Message, **more: Any) -> None:
            if message.type == "dead" or (message.type == "call" and "delay" in route.exchange):
                await asyncio.sleep(0)
                raise PublishForbiddenError("not yours")
            await super().publish(route, message, **more)

    starts = []
    demo = Provider("demo", name="Demo")

    @demo.action("try", name="Try", retry=Retry(on=LookupError, attempts=2, backoff=0 if signal == "last retry" else 1))
    async def try_(_: Nothing) -> bool:
        starts.append(1)
        if signal == "defer":
            raise Defer(after=1)
        raise LookupError

    transport = Strict(bus=MemoryBus())
    running = await RunningWorker(Worker(transport, ProviderRegistry([demo])), transport).started()
    caller = BusCaller(transport)
    await caller.open()
    ends = {"retry": "internal", "last retry": "attempts_exhausted", "defer": "overloaded"}
    assert code_of(await caller.call(make_call("try"))) == ends[signal]
    await eventually(lambda: running.worker.in_flight == 0)
    assert len(starts) == (2 if signal == "last retry" else 1)
    await caller.close()
    await running.stop()


async def test_a_next_generation_that_overtakes_the_settling_of_the_one_before_is_run(
    transport: MemoryTransport, told: Told
) -> None:
    """With no pause between them the broker hands it out before this worker heard of its confirm."""

    class Slow(MemoryTransport):
        async def publish(self, route: Route, message: Message, **more: Any) -> None:
            await super().publish(route, message, **more)
            await asyncio.sleep(0.05 if message.type == "call" else 0)

    generations = []
    demo = Provider("demo", name="Demo")

    @demo.action("later", name="Later")
    async def later(_: Nothing, ctx: ActionContext) -> int:
        generations.append(ctx.deferred)
        if ctx.deferred != 3:
            raise Defer((ctx.deferred or 0) + 1, after=0)
        return 3

    transport = Slow(bus=MemoryBus())
    running = await RunningWorker(Worker(transport, ProviderRegistry([demo])), transport).started()
    caller = BusCaller(transport)
    await caller.open()
    assert (await caller.call(make_call("later"))).response == Completed(3)
    assert generations == [None, 1, 2, 3]
    await eventually(lambda: running.worker.in_flight == 0)
    await caller.close()
    await running.stop()


async def test_a_call_that_has_just_finished_here_is_replied_to_again_and_not_run_again(
    transport: MemoryTransport, told: Told
) -> None:
    told.gate.set()
    async with serving(transport, told) as caller:
        call = make_call("hold")
        assert (await caller.call(call)).response == Completed(True)
        body, route = encode_call(call), transport.topology.call_route("demo", "main")
        taken = Inbox()
        other = MemoryTransport(bus=transport._bus)
        await other.open()
        mailbox = await other.subscribe(other.topology.mailbox("elsewhere"), taken, prefetch=10)
        again = Message(body, "call", call.call_id, "elsewhere")
        await transport.publish(route, again, deadline=time.time() + 5)
        await eventually(lambda: len(taken) == 1)
        assert told.runs == ["hold", "hold"], "sent anew it is run anew: only what is delivered again is known"
        await mailbox.close()
        await other.close()


async def test_a_worker_that_is_aborted_in_the_moment_of_a_receipt_can_serve_again(told: Told) -> None:
    transport = MemoryTransport(bus=MemoryBus())
    worker = Worker(transport, ProviderRegistry(providers(told)), grace=0)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(worker.started.wait(), 5)
    caller = BusCaller(transport)
    await caller.open()
    waiting = asyncio.create_task(caller.call(make_call("hold")))
    while not worker.in_flight:  # noqa: ASYNC110  in the very turn of the receipt
        await asyncio.sleep(0)
    await worker.abort()
    await running
    assert worker.in_flight == 0
    told.gate.set()
    running = asyncio.create_task(worker.run())
    assert (await asyncio.wait_for(waiting, 5)).response == Completed(True)
    running.cancel()
    await asyncio.wait({running})
    await caller.close()
    await transport.close()


async def test_what_failed_in_its_last_attempt_is_a_dead_letter_with_its_reason_and_its_call(
    transport: MemoryTransport,
) -> None:
    demo = Provider("demo", name="Demo")

    @demo.action("try", name="Try", retry=Retry(on=LookupError, attempts=2, backoff=0))
    async def try_(_: Nothing) -> bool:
        raise LookupError

    running = await RunningWorker(Worker(transport, ProviderRegistry([demo])), transport).started()
    dead = Inbox(ack=True)
    graves = await transport.subscribe(transport.topology.dead_queue, dead, prefetch=10)
    caller = BusCaller(transport)
    await caller.open()
    call = make_call("try")
    assert code_of(await caller.call(call)) == "attempts_exhausted"
    await eventually(lambda: len(dead) == 1)
    letter = orjson.loads(dead.bodies[0])
    assert (letter["v"], letter["worker"]) == (1, running.worker.name)
    assert letter["reason"]["code"] == "attempts_exhausted"
    assert letter["reason"]["details"]["last"]["details"]["type"] == "LookupError"
    buried = decode_call(orjson.dumps(letter["call"]))
    assert (buried.call_id, buried.attempt, buried.asks_the_same_as(call)) == (call.call_id, 2, True)
    await graves.close()
    await caller.close()
    await running.stop()
