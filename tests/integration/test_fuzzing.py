"""Whatever strangers, mistakes and other versions put on a bus: no process dies, and each message is accounted for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from struct import pack
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from grundlag_bus import (
    Call,
    Completed,
    DeadlineExceededError,
    Failed,
    GrundlagError,
    Interrupted,
    Ledger,
    MemoryTransport,
    RabbitTransport,
    Reply,
    Request,
    Resumption,
    SealKeys,
    Store,
    ToolContext,
    ToolInterrupt,
    Transport,
)
from grundlag_bus.adapters.bus import TransportBus
from grundlag_bus.errors import EnvelopeError, UnroutableError
from grundlag_bus.schema.control import Cancel
from grundlag_bus.schema.envelope import decode_call, decode_reply, encode_call, encode_reply, new_call_id
from grundlag_bus.schema.event import decode_event
from grundlag_bus.schema.progress import decode_progress
from grundlag_bus.telemetry.events import EnvelopeRefused, Event
from grundlag_bus.tools import to_tools
from grundlag_bus.transport import Delivery, Message
from grundlag_bus.transport.memory import MemoryBus
from grundlag_bus.workers import absent
from tests.support.eventually import eventually
from tests.support.fuzz_stage import SECRET, Stage, registry
from tests.support.fuzzing import CALL, REAL, RESPONSES, Mutator, almost
from tests.support.namespaces import fresh_namespace
from tests.support.strangers import NO_TEXT, NO_TIME, NO_TIME_IN_TABLE, TEXT_AS_DEATH, publish_as_stranger
from tests.support.transports import administration_of, in_time

ACTIONS = ("echo", "thread", "fail", "again", "later", "ask")
COVER = frozenset(("v", "providerId", "lane", "sentAt", "deadline", "generation", "attempt"))
"""Fields whose like in most mutations would have all else looked at by nobody."""
BATCH = 2500


def on_buses(memory: int, rabbitmq: int) -> pytest.MarkDecorator:
    """Run a test with so many messages, and over RabbitMQ with all of them where there is time."""
    long = pytest.param("rabbitmq", 10_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])
    return pytest.mark.parametrize(("kind", "count"), [("memory", memory), ("rabbitmq", rabbitmq), long])


@pytest.fixture
def make(request: pytest.FixtureRequest, kind: str) -> Callable[[], Transport]:
    """Return what makes transports on one bus."""
    if kind == "memory":
        bus, namespace = MemoryBus(), fresh_namespace()
        return lambda: MemoryTransport(namespace=namespace, bus=bus)
    url, namespace = request.getfixturevalue("amqp_url"), request.getfixturevalue("namespace")
    return lambda: RabbitTransport(url, namespace=namespace)


@pytest.fixture
async def stage(make: Callable[[], Transport], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(absent, "BETWEEN_READINGS", 0.0)
    async with Stage(make) as stage:
        yield stage
        still = await stage.call(well())  # it serves as before
        assert isinstance(still, Completed), still


def well(action_id: str = "echo", value: Any = 1, **fields: Any) -> Call:
    """Make a call that is as it should be."""
    now = time.time()
    request = fields.pop("request", Request({"value": value}))
    return Call(new_call_id(), "demo", action_id, request, deadline=now + 60, sent_at=now, **fields)


def calls(mutator: Mutator, count: int) -> Iterator[bytes]:
    """Make mutated calls, many of them with the id of another."""
    random = mutator.random
    for number in range(count):
        action_id = random.choice(ACTIONS)
        call = replace(CALL, call_id=f"c{random.randrange(10 * count)}", action_id=action_id)
        if random.random() < 0.8:
            call = replace(call, deferred=None)
        if action_id != "ask" or random.random() < 0.5:
            call = replace(call, request=Request({"value": number}, items=call.request.items))
        yield mutator.of(encode_call(call), keep=COVER if random.random() < 0.7 else frozenset())


def batches(count: int) -> Iterator[int]:
    return (min(BATCH, count - first) for first in range(0, count, BATCH))


# --- at a worker ------------------------------------------------------------------------------------------------------


@on_buses(9500, 500)
async def test_every_mutated_call_is_replied_to_once_or_refused_and_dead_lettered(stage: Stage, count: int) -> None:
    mutator = Mutator(seed=count)
    for batch in batches(count):
        await stage.account_for(calls(mutator, batch))


@pytest.mark.parametrize("kind", ["memory"])
async def test_with_a_ledger_it_is_so_too(
    make: Callable[[], Transport], store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent, "BETWEEN_READINGS", 0.0)
    mutator = Mutator(seed=12)
    async with await Store.open(store_url) as store, Stage(make, ledger=Ledger(store)) as stage:
        topology = stage.transport.topology
        odd = ("", "\0", "x" * 255, "é" * 101, "x" * 200, "a\nb", "#")
        ids = [encode_call(replace(well(), call_id=call_id)) for call_id in odd]
        await stage.account_for([*ids, *calls(mutator, 400)])
        cancels = [mutator.of(REAL["cancel"][0]) for _ in range(100)] + [Cancel("\0", time.time()).encode()]
        await stage.publish((topology.control_route("cancel"), Message(cancel, "cancel")) for cancel in cancels)
        nobody = [Message(encode_call(well()), "call", None, mailbox) for mailbox in ("a\nb", "\0")]
        await stage.publish((topology.call_route("demo", "main"), message) for message in nobody)
        late = Cancel("late", time.time()).encode()
        await stage.publish([(topology.control_route("cancel"), Message(late, "cancel"))])
        assert isinstance(await stage.call(well()), Completed)
        told = await stage.call(replace(well(), call_id="late"))
        assert isinstance(told, Failed)
        assert told.code == "cancelled"
        assert stage.running.worker.status().ledger_away is None


def test_every_call_near_a_real_one_is_replied_to_once_or_refused_and_dead_lettered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(absent, "BETWEEN_READINGS", 0.0)
    bus = MemoryBus()
    reals = [encode_call(replace(CALL, action_id=action_id)) for action_id in ACTIONS if action_id != "later"]
    with asyncio.Runner() as runner:
        stage = runner.run(Stage(lambda: MemoryTransport(bus=bus)).__aenter__())

        @settings(max_examples=250, deadline=None)
        @given(almost(reals))
        def hold(body: bytes) -> None:
            runner.run(stage.account_for([body]))

        hold()
        runner.run(stage.__aexit__())


@pytest.mark.parametrize("kind", ["rabbitmq"])
async def test_a_call_with_odd_properties_is_accounted_for(stage: Stage) -> None:
    mutator = Mutator(seed=3)
    random = mutator.random
    assert isinstance(stage.transport, RabbitTransport)
    route = stage.transport.topology.call_route("demo", "main")
    odd = [(0, b""), NO_TEXT, NO_TIME, NO_TIME_IN_TABLE, TEXT_AS_DEATH]
    count = 300
    for number in range(count):
        properties = random.choice(odd)
        if number % 3:  # of correlation id and reply-to, with bytes of no text and names that topics read otherwise
            known = (random.randbytes(9), b"", b"#", b"*.*", b"x" * 255, b"amq.gen-1")
            names = [random.choice(known) for _ in range(2)]
            properties = (1 << 10 | 1 << 9, b"".join(pack("B", len(name)) + name for name in names))
        call = encode_call(replace(CALL, call_id=f"c{number}", request=Request({"value": number}), deferred=None))
        body = call if random.random() < 0.5 else mutator.of(call)
        await publish_as_stranger(stage.transport, route, body, properties)
    await eventually(lambda: stage.ended + stage.refused == count, within=60)
    bus = await administration_of(stage.transport)
    counts = await bus.count(stage.transport.topology.call_queue("demo", "main").name)
    await bus.close()
    assert counts is not None
    assert counts.messages == 0
    await eventually(lambda: stage.dead.total() == stage.refused)


@on_buses(1000, 300)
async def test_what_strangers_say_to_all_workers_stops_none(stage: Stage, count: int) -> None:
    topology, mutator = stage.transport.topology, Mutator(seed=4)
    [cancel] = REAL["cancel"]
    for word in ("cancel", "ping"):
        await stage.publish(
            (
                topology.control_route("cancel" if word == "cancel" else "ping"),
                Message(mutator.of(cancel), word, None, mutator.random.choice((None, "#", "nobody", "x" * 255))),
            )
            for _ in range(count)
        )
    await stage.publish((topology.cancels.route, Message(mutator.of(cancel), "cancel")) for _ in range(count))
    # Who starts now reads all of them first, and one that was really cancelled among them.
    cancelled = replace(well(), call_id="c1")
    await stage.publish([(topology.control_route("cancel"), Message(Cancel("c1", time.time()).encode(), "cancel"))])
    await stage.running.stop()
    await stage.start_worker()
    told = await stage.call(cancelled)
    assert isinstance(told, Failed)
    assert told.code == "cancelled"


@on_buses(1000, 300)
async def test_what_strangers_announce_hides_nothing_and_keeps_no_worker_from_starting(
    stage: Stage, make: Callable[[], Transport], count: int
) -> None:
    topology, mutator = stage.transport.topology, Mutator(seed=5)
    theirs = orjson.loads(REAL["announcement"][0].replace(b'"demo"', b'"stranger"'))
    await stage.publish(
        (topology.manifests.route, Message(mutator.of(orjson.dumps(theirs)), "manifest")) for _ in range(count)
    )
    await stage.start_worker()
    async with TransportBus(make()) as bus:
        tools = await bus.to_tools()
        assert {f"demo{action_id.capitalize()}" for action_id in ACTIONS} <= tools.keys()
        assert await tools["demoEcho"].execute({"value": 1}) == {"value": 1}
        for tool in tools.values():
            if tool.provider_id != "demo":
                with pytest.raises(GrundlagError):
                    await tool.execute({}, ToolContext(timeout=1))


@on_buses(1500, 300)
async def test_no_answer_with_a_forged_state_is_taken(stage: Stage, count: int) -> None:
    mutator = Mutator(seed=6)
    asked = well("ask")
    told = await stage.call(asked)
    assert isinstance(told, Interrupted)
    answer = Resumption(told.interrupt_id, {"approved": True}, told.state, "ada")
    real = well("ask", request=replace(asked.request, resumption=answer))
    responses = []
    for first in range(0, count, 100):
        forged = [forge(mutator, real) for _ in range(first, min(first + 100, count))]
        responses += await asyncio.gather(*map(stage.call, forged))
    for response in responses:
        if isinstance(response, Completed):  # nothing that counts was changed
            assert response.result in ({"value": [True, SECRET]}, {"value": [False, SECRET]})
        else:
            assert isinstance(response, Failed | Interrupted)
    codes = {response.code for response in responses if isinstance(response, Failed)}
    assert {"state_invalid", "answer_invalid"} <= codes <= {"state_invalid", "answer_invalid", "input_invalid"}
    genuine = await stage.call(real)
    assert isinstance(genuine, Completed)
    assert genuine.result == {"value": [True, SECRET]}


def forge(mutator: Mutator, real: Call) -> Call:
    """Change the state's text, or whatever else a resumption says."""
    resumption = real.request.resumption
    assert resumption is not None
    if mutator.random.random() < 0.5:
        state = mutator.bytes_of(resumption.state.encode()).decode("ascii", errors="replace")
        request = replace(real.request, resumption=replace(resumption, state=state))
        return replace(real, call_id=new_call_id(), request=request)
    while True:
        body = orjson.dumps(real.request.to_json())
        data = mutator.of(body, keep=frozenset(("items",)))
        try:
            call = decode_call(encode_call(real).replace(body, data))
        except EnvelopeError:
            continue
        return replace(call, call_id=new_call_id())


# --- at a caller ------------------------------------------------------------------------------------------------------


@on_buses(6000, 500)
async def test_mutated_replies_and_reports_are_counted_and_disturb_no_call(
    stage: Stage, make: Callable[[], Transport], count: int
) -> None:
    mutator, refused = Mutator(seed=8), 0

    def hear(event: Event) -> None:
        nonlocal refused
        refused += isinstance(event, EnvelopeRefused)

    async with TransportBus(make(), hook=hear) as bus:
        tools = await bus.to_tools()
        mailbox = stage.transport.topology.reply_route(bus._bus_caller._mailbox)
        readable = {"reply": 0, "progress": 0}
        for batch in batches(count):
            kinds = ("reply", "progress") * (batch // 2)
            fed = [(kind, mutator.of(mutator.random.choice(REAL[kind]))) for kind in kinds]
            for kind, body in fed:
                readable[kind] += _reads(kind, body)
            sending = stage.publish(
                (mailbox, Message(body, kind, mutator.random.choice((None, "", "c1", "x" * 255)))) for kind, body in fed
            )
            values = list(range(50))
            _, *results = await asyncio.gather(
                sending, *(tools["demoEcho"].execute({"value": value}) for value in values)
            )
            assert results == [{"value": value} for value in values]
        total = count - readable["progress"]
        await eventually(lambda: bus._bus_caller.late_replies + refused == total)
        assert bus._bus_caller.late_replies == readable["reply"]
        assert bus._bus_caller.in_flight == 0


def _reads(kind: str, body: bytes) -> bool:
    try:
        decode_reply(body) if kind == "reply" else decode_progress(body)
    except EnvelopeError:
        return False
    return True


class OddWorker:
    """Takes calls, and sends of each a mutated report, a mutated reply, and one that is right."""

    def __init__(self, transport: Transport, bodies: Callable[[str], list[Message]]) -> None:
        self._transport = transport
        self._bodies = bodies
        self._sending: set[asyncio.Task[None]] = set()

    def take(self, delivery: Delivery) -> None:
        sending = asyncio.create_task(self._reply(delivery))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _reply(self, delivery: Delivery) -> None:
        message = delivery.message
        assert message.reply_to is not None
        route = self._transport.topology.reply_route(message.reply_to)
        with suppress(UnroutableError):  # what is too late may be later than its caller
            for reply in self._bodies(decode_call(message.body).call_id):
                await self._transport.publish(route, reply, deadline=in_time())
        delivery.ack()


@on_buses(4000, 300)
async def test_a_call_whose_reply_is_mutated_ends_once_as_calls_end(make: Callable[[], Transport], count: int) -> None:
    mutator, ends = Mutator(seed=9), {"completed": 0, "interrupted": 0, "failed": 0}
    random, heard = mutator.random, 0

    def bodies(call_id: str) -> list[Message]:
        keep = frozenset(("callId", "v")) if random.random() < 0.8 else frozenset()
        right = encode_reply(Reply(call_id, Completed({"value": 1}), "w"))
        reply = right if random.random() < 0.3 else encode_reply(Reply(call_id, random.choice(RESPONSES), "w"))
        report = random.choice(REAL["progress"]).replace(b'"c1"', orjson.dumps(call_id))
        told = [(mutator.of(report, keep=keep), "progress"), (mutator.of(reply, keep=keep), "reply"), (right, "reply")]
        return [Message(body, kind, call_id) for body, kind in told]

    def listen(_: object) -> None:
        nonlocal heard
        heard += 1

    async def one(tool: Any) -> None:
        try:
            await tool.execute({"value": 1}, ToolContext(on_progress=listen, timeout=60))
            ends["completed"] += 1
        except DeadlineExceededError:
            raise  # nobody sends such a reply: nothing else has ended it
        except GrundlagError:
            ends["failed"] += 1
        except ToolInterrupt as interrupt:
            ends["interrupted"] += 1
            await resume(tool, interrupt)

    async def resume(tool: Any, interrupt: ToolInterrupt) -> None:
        try:
            await tool.resume(interrupt, {"approved": True}, ToolContext(timeout=120))
        except (GrundlagError, ToolInterrupt):
            return

    transport = make()
    await transport.open()
    odd = OddWorker(transport, bodies)
    subscription = await transport.subscribe(transport.topology.call_queue("demo", "main"), odd.take, prefetch=100)
    async with TransportBus(make()) as bus:
        tools = to_tools(registry(SealKeys.generate()).manifest(), bus.caller)
        for batch in batches(count):
            await asyncio.gather(*(one(tools[random.choice(("demoEcho", "demoAsk"))]) for _ in range(batch)))
        assert bus._bus_caller.in_flight == 0
    assert sum(ends.values()) == count
    assert min(ends.values()) > count // 50
    assert heard > count // 50
    await subscription.close()
    await transport.close()


@on_buses(2000, 300)
async def test_a_listener_hears_the_events_between_what_is_none(
    stage: Stage, make: Callable[[], Transport], count: int
) -> None:
    mutator = Mutator(seed=10)
    topology, [real] = stage.transport.topology, REAL["event"]
    fed = [mutator.of(real.replace(b'"e1"', b'"e%d"' % number)) for number in range(count)]
    expected = {event_id for body in fed if (event_id := _id_of_event(body)) is not None}
    route = topology.event_route("demo", "done")
    async with TransportBus(make()) as bus, bus.events("#") as events:
        await stage.publish((route, Message(body, "event")) for body in fed)
        await stage.publish([(route, Message(real.replace(b'"e1"', b'"last"'), "event"))])
        heard = set()
        async for event in events:
            heard.add(event.id)
            if event.id == "last":
                break
    assert heard == {*expected, "last"}


def _id_of_event(body: bytes) -> str | None:
    try:
        event = decode_event(body)
    except EnvelopeError:
        return None
    return event.id if event.key == "demo.done" else None
