from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from grundlag_bus.errors import (
    ConfigurationError,
    PublishRefusedError,
    TopologyMismatchError,
    TransportError,
    UnroutableError,
)
from grundlag_bus.transport import Delivery, MemoryBus, MemoryTransport, Message, Transport, named_bus
from grundlag_bus.transport.memory.stream import age_seconds
from grundlag_bus.transport.parts import Binding, Bridge, Exchange, Ladder, Queue, Route, Stream
from tests.support.transports import Inbox, in_time

TOPIC = Exchange("events", "topic")


def a_queue(name: str = "q", exchange: Exchange = TOPIC, routing_key: str = "q", **arguments: Any) -> Queue:
    """Make a quorum queue; arguments as `max_length=2`."""
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return Queue(name, (Binding(exchange, routing_key),), {"x-queue-type": "quorum", **named})


async def opened(bus: MemoryBus | None = None) -> MemoryTransport:
    transport = MemoryTransport(bus=bus)
    await transport.open()
    return transport


async def put(transport: Transport, body: bytes = b"x", *, exchange: str = "events", routing_key: str = "q") -> None:
    await transport.publish(Route(exchange, routing_key), Message(body, "call"), deadline=in_time())


async def taken(transport: Transport, queue: Queue) -> list[bytes]:
    """Take what waits in the queue, and leave it empty."""
    inbox = Inbox(ack=True)
    subscription = await transport.subscribe(queue, inbox, prefetch=0)
    await asyncio.sleep(0)
    await subscription.close()
    return inbox.bodies


# --- hand-over --------------------------------------------------------------------------------------------------------


async def test_a_receiver_is_never_called_within_publish_or_settle() -> None:
    transport = await opened()
    inside: list[str] = []
    doing = ""

    def receive(delivery: Delivery) -> None:
        inside.append(doing)
        if len(inside) < 3:
            delivery.nack()

    await transport.subscribe(a_queue(), receive, prefetch=1)
    doing = "publishing"
    transport._bus.publish(Route("events", "q"), Message(b"x", "call"))
    doing = ""
    await asyncio.sleep(0)
    assert inside == [""], "a nack within a receiver waits for the next turn"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inside == ["", "", ""]


async def test_a_full_queue_and_a_fast_receiver_leave_turns_to_others() -> None:
    transport = await opened()
    await taken(transport, a_queue())
    for _ in range(1000):
        transport._bus.publish(Route("events", "q"), Message(b"x", "call"))
    inbox = Inbox(ack=True)
    await transport.subscribe(a_queue(), inbox, prefetch=1)
    await asyncio.sleep(0)
    assert 0 < len(inbox) < 100
    await inbox.holds(1000)


async def test_a_publisher_that_never_waits_leaves_turns_to_receivers() -> None:
    transport, inbox = await opened(), Inbox(ack=True)
    await transport.subscribe(a_queue(), inbox, prefetch=1)
    for _ in range(10):
        await put(transport)
    assert len(inbox) >= 9


async def test_a_waiting_bus_does_nothing() -> None:
    transport, inbox = await opened(), Inbox()
    await transport.subscribe(a_queue(), inbox, prefetch=1)
    await put(transport)
    await put(transport)
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    with mock.patch.object(loop, "call_soon", wraps=loop.call_soon) as called:
        await asyncio.sleep(0.02)
    assert called.call_count <= 2, "nothing but the sleep's own callbacks"
    assert await inbox.holds(1)


async def test_a_receiver_that_raises_is_reported_and_the_queue_goes_on() -> None:
    transport, seen = await opened(), list[bytes]()
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def receive(delivery: Delivery) -> None:
        seen.append(delivery.message.body)
        if len(seen) == 1:
            raise RuntimeError("receiver")

    await transport.subscribe(a_queue(), receive, prefetch=5)
    for body in (b"1", b"2", b"3"):
        await put(transport, body)
    await asyncio.sleep(0)
    assert seen == [b"1", b"2", b"3"]
    assert [str(context["exception"]) for context in reported] == ["receiver"]


async def test_consumers_with_room_take_turns() -> None:
    transport = await opened()
    inboxes = [Inbox(), Inbox(), Inbox()]
    for inbox, prefetch in zip(inboxes, (1, 5, 5), strict=True):
        await transport.subscribe(a_queue(), inbox, prefetch=prefetch)
    for number in range(9):
        await put(transport, b"%d" % number)
    assert [inbox.bodies for inbox in inboxes] == [[b"0"], [b"1", b"3", b"5", b"7"], [b"2", b"4", b"6", b"8"]]


async def test_what_comes_back_goes_first_in_the_order_it_came_back() -> None:
    transport, inbox = await opened(), Inbox()
    subscription = await transport.subscribe(a_queue(), inbox, prefetch=3)
    for body in (b"1", b"2", b"3", b"4"):
        await put(transport, body)
    await inbox.holds(3)
    await subscription.stop()
    for delivery in reversed(inbox.deliveries):
        delivery.nack()
    assert await taken(transport, a_queue()) == [b"3", b"2", b"1", b"4"]


# --- dead letters and limits ------------------------------------------------------------------------------------------


async def dead_letters(transport: MemoryTransport) -> list[bytes]:
    return await taken(transport, transport.topology.dead_queue)


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_a_message_lost_more_often_than_the_limit_is_dead_lettered(limit: int) -> None:
    transport = await opened()
    queue = a_queue(delivery_limit=limit, dead_letter_exchange=transport.topology.dead.name)
    inbox = Inbox()
    subscription = await transport.subscribe(queue, inbox, prefetch=1)
    await put(transport)
    for lost in range(limit + 1):
        await inbox.holds(lost + 1)
        assert inbox.deliveries[lost].lost == lost
        transport.reconnect()
    await subscription.close()
    assert await taken(transport, queue) == []
    assert await dead_letters(transport) == [b"x"]


async def test_a_nack_does_not_count_towards_the_limit() -> None:
    transport, inbox = await opened(), Inbox()
    queue = a_queue(delivery_limit=1, dead_letter_exchange=transport.topology.dead.name)
    subscription = await transport.subscribe(queue, inbox, prefetch=1)
    await put(transport)
    for count in range(1, 10):
        await inbox.holds(count)
        inbox.deliveries[-1].nack()
    await subscription.close()
    assert await dead_letters(transport) == []
    assert await taken(transport, queue) == [b"x"]


@pytest.mark.parametrize(("arguments", "times"), [({}, 21), ({"delivery_limit": -1}, 60)])
async def test_the_limit_is_the_broker_s_default_or_none(arguments: dict[str, Any], times: int) -> None:
    transport = await opened()
    queue = a_queue(dead_letter_exchange=transport.topology.dead.name, **arguments)
    inbox = Inbox()
    subscription = await transport.subscribe(queue, inbox, prefetch=1)
    await put(transport)
    for time in range(1, times + 1):
        await inbox.holds(time)
        transport.reconnect()
    await subscription.close()
    assert await taken(transport, queue) == ([b"x"] if arguments else [])


async def test_a_classic_queue_has_no_limit() -> None:
    transport = await opened()
    queue = Queue("q", (Binding(TOPIC, "q"),), {"x-queue-type": "classic"})
    inbox = Inbox()
    subscription = await transport.subscribe(queue, inbox, prefetch=1)
    await put(transport)
    for time in range(1, 61):
        await inbox.holds(time)
        transport.reconnect()
    await subscription.close()
    assert await taken(transport, queue) == [b"x"]


async def test_giving_back_by_closing_does_not_count_towards_the_limit() -> None:
    transport = await opened()
    queue = a_queue(delivery_limit=1, dead_letter_exchange=transport.topology.dead.name)
    await taken(transport, queue)
    await put(transport)
    for _ in range(5):
        inbox = Inbox()
        subscription = await transport.subscribe(queue, inbox, prefetch=1)
        await inbox.holds(1)
        assert inbox.deliveries[0].lost == 0
        await subscription.close()
    assert await taken(transport, queue) == [b"x"]


async def test_after_a_reconnect_there_is_room_for_what_comes_again_and_late_settling_does_nothing() -> None:
    transport, inbox = await opened(), Inbox()
    await transport.subscribe(a_queue(), inbox, prefetch=2)
    for body in (b"1", b"2", b"3"):
        await put(transport, body)
    await inbox.holds(2)
    transport.reconnect()
    for delivery in inbox.deliveries[:2]:
        delivery.ack()
    assert await inbox.holds(4) == [b"1", b"2", b"1", b"2"]
    inbox.deliveries[2].ack()
    assert await inbox.holds(5) == [b"1", b"2", b"1", b"2", b"3"]


async def test_a_queue_without_a_dead_letter_exchange_drops_what_is_rejected() -> None:
    transport, inbox = await opened(), Inbox()
    subscription = await transport.subscribe(a_queue(), inbox, prefetch=1)
    await put(transport)
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    await subscription.close()
    assert await taken(transport, a_queue()) == []
    assert await dead_letters(transport) == []


async def test_a_full_queue_refuses_and_takes_again_when_there_is_room() -> None:
    transport = await opened()
    queue = a_queue(max_length=2, overflow="reject-publish")
    await taken(transport, queue)
    await put(transport, b"1")
    await put(transport, b"2")
    with pytest.raises(PublishRefusedError, match=r"q is full \(2\)"):
        await put(transport, b"3")
    assert await taken(transport, queue) == [b"1", b"2"]
    await put(transport, b"4")
    assert await taken(transport, queue) == [b"4"]


@pytest.mark.parametrize("arguments", [{"max_length": 5}, {"max_priority": 5}])
async def test_an_argument_that_would_be_ignored_is_refused(arguments: dict[str, Any]) -> None:
    transport = await opened()
    with pytest.raises(ConfigurationError, match="The queue q has"):
        await transport.subscribe(a_queue(**arguments), Inbox(), prefetch=1)


# --- routing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("binding", "matching", "other"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "axb", ""]),
        ("*", ["a", "a-b"], ["", "a.b"]),
        ("#", ["", "a", "a.b.c", "a..b"], []),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["ab", "", "b.a"]),
        ("#.c", ["c", "a.c", "a.b.c"], ["ac", "c.a"]),
        ("a.#.c", ["a.c", "a.b.c", "a.b.b.c"], ["a", "c", "ac"]),
        ("#.b.#", ["b", "a.b", "b.c", "a.a.b.c"], ["a", "ab"]),
        ("*.#", ["a", "a.b"], [""]),
        ("#.#", ["", "a", "a.b"], []),
        ("a+.(b)", ["a+.(b)"], ["aa.b"]),
    ],
)
async def test_a_topic_exchange_routes_by_words(binding: str, matching: list[str], other: list[str]) -> None:
    transport = await opened()
    queue = a_queue(routing_key=binding)
    await taken(transport, queue)
    for routing_key in matching:
        await put(transport, routing_key=routing_key)
    for routing_key in other:
        with pytest.raises(UnroutableError):
            await put(transport, routing_key=routing_key)
    assert len(await taken(transport, queue)) == len(matching)


@pytest.mark.timeout(5)
async def test_many_wildcards_do_not_stall_the_bus() -> None:
    transport = await opened()
    await taken(transport, a_queue(routing_key="#.a." * 30 + "x"))
    with pytest.raises(UnroutableError):
        await put(transport, routing_key="a." * 60 + "a")


async def test_a_fanout_exchange_routes_to_every_queue_whatever_the_key() -> None:
    transport, fanout = await opened(), Exchange("all", "fanout")
    queues = [a_queue(name, fanout, key) for name, key in (("one", "a"), ("two", "b.#"))]
    for queue in queues:
        await taken(transport, queue)
    await put(transport, exchange="all", routing_key="whatever")
    assert [await taken(transport, queue) for queue in queues] == [[b"x"], [b"x"]]


async def test_a_direct_exchange_takes_wildcards_for_letters() -> None:
    transport, direct = await opened(), Exchange("exact", "direct")
    queue = a_queue(exchange=direct, routing_key="a.*")
    await taken(transport, queue)
    with pytest.raises(UnroutableError):
        await put(transport, exchange="exact", routing_key="a.b")
    await put(transport, exchange="exact", routing_key="a.*")
    assert await taken(transport, queue) == [b"x"]


async def test_the_default_exchange_routes_to_the_queue_of_that_name() -> None:
    transport = await opened()
    await taken(transport, a_queue("named"))
    await put(transport, exchange="", routing_key="named")
    assert await taken(transport, a_queue("named")) == [b"x"]


async def test_a_queue_that_several_bindings_lead_to_gets_a_message_once() -> None:
    transport = await opened()
    for routing_key in ("a.b", "a.*", "#"):
        await taken(transport, a_queue(routing_key=routing_key))
    await put(transport, routing_key="a.b")
    assert await taken(transport, a_queue()) == [b"x"]


async def test_every_queue_that_a_binding_leads_to_gets_the_message() -> None:
    transport = await opened()
    queues = [a_queue(name, routing_key=key) for name, key in (("1", "a.b"), ("2", "a.*"), ("3", "#"), ("4", "c"))]
    for queue in queues:
        await taken(transport, queue)
    await put(transport, routing_key="a.b")
    assert [await taken(transport, queue) for queue in queues] == [[b"x"], [b"x"], [b"x"], []]


async def test_an_exchange_that_does_not_exist_is_unroutable() -> None:
    with pytest.raises(UnroutableError, match="missing"):
        await put(await opened(), exchange="missing")


async def test_an_exchange_of_another_kind_is_a_mismatch() -> None:
    transport = await opened()
    await taken(transport, a_queue())
    with pytest.raises(TopologyMismatchError, match="exists as topic and is declared as fanout"):
        await transport.subscribe(a_queue("q2", Exchange("events", "fanout")), Inbox(), prefetch=1)


async def test_a_mismatch_tells_the_difference() -> None:
    transport = await opened()
    await taken(transport, a_queue(delivery_limit=3))
    with pytest.raises(TopologyMismatchError, match="x-delivery-limit is 3 there and 4 here"):
        await transport.subscribe(a_queue(delivery_limit=4), Inbox(), prefetch=1)


# --- lifetimes --------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_deadlines_are_measured_by_the_given_clock() -> None:
    clock = Clock()
    transport = MemoryTransport(clock=clock)
    await transport.open()
    await taken(transport, a_queue())
    route, message = Route("events", "q"), Message(b"x", "call")
    await transport.publish(route, message, deadline=1000.5)
    clock.now = 1000.5
    with pytest.raises(PublishRefusedError):
        await transport.publish(route, message, deadline=1000.5)
    assert await taken(transport, a_queue()) == [b"x"]


def left_behind(transport: MemoryTransport, process: str) -> Queue:
    """Name a mailbox whose process dies and deletes nothing."""
    return replace(transport.topology.mailbox(process), passing=False)


async def test_an_unused_mailbox_expires_with_what_it_holds() -> None:
    clock = Clock()
    transport = MemoryTransport(clock=clock)
    await transport.open()
    mailbox, route = left_behind(transport, "ada"), transport.topology.reply_route("ada")
    subscription = await transport.subscribe(mailbox, Inbox(), prefetch=1)
    clock.now += 1000
    await transport.publish(route, Message(b"used", "reply"), deadline=clock.now + 1)
    await subscription.close()
    clock.now += 299
    await transport.publish(route, Message(b"in time", "reply"), deadline=clock.now + 1)
    clock.now += 1
    with pytest.raises(UnroutableError):
        await transport.publish(route, Message(b"late", "reply"), deadline=clock.now + 1)
    assert await taken(transport, mailbox) == []


async def test_expired_mailboxes_do_not_pile_up() -> None:
    clock = Clock()
    transport = MemoryTransport(clock=clock)
    await transport.open()
    for number in range(1000):
        await (await transport.subscribe(left_behind(transport, f"m{number}"), Inbox(), prefetch=1)).close()
        clock.now += 60
    assert len(transport._bus._queues) < 10
    assert len(transport._bus._exchanges[transport.topology.replies.name].queues._exact) < 10


# --- delays -----------------------------------------------------------------------------------------------------------


async def delay(transport: MemoryTransport, seconds: float, body: bytes = b"x") -> None:
    route = transport.topology.delayed_call_route("calendar", "main", seconds)
    await transport.publish(route, Message(body, "call"), deadline=float("inf"))


async def on_a_clock(clock: Clock) -> tuple[MemoryBus, MemoryTransport]:
    bus = MemoryBus(clock=clock)
    transport = MemoryTransport(bus=bus, clock=clock)
    await transport.open()
    return bus, transport


@pytest.mark.parametrize("seconds", [1, 5, 59, 3600, 86_400 * 12, 2**20 - 1])
async def test_a_delay_is_exact_however_the_clock_is_set_forward(seconds: int) -> None:
    clock = Clock()
    bus, transport = await on_a_clock(clock)
    calls = transport.topology.call_queue("calendar", "main")
    await taken(transport, calls)
    await delay(transport, seconds, b"at once")
    began = clock.now
    clock.now = began + seconds - 0.001
    bus.tick()
    assert await taken(transport, calls) == []
    clock.now = began + seconds
    bus.tick()
    assert await taken(transport, calls) == [b"at once"]
    began = clock.now
    await delay(transport, seconds, b"by and by")
    for step in range(1, 8):
        clock.now = began + seconds * step / 8
        bus.tick()
    assert await taken(transport, calls) == []
    clock.now = began + seconds
    bus.tick()
    assert await taken(transport, calls) == [b"by and by"]


async def test_what_is_due_in_one_tick_comes_in_the_order_in_which_it_was_due() -> None:
    clock = Clock()
    bus, transport = await on_a_clock(clock)
    calls = transport.topology.call_queue("calendar", "main")
    await taken(transport, calls)
    delays = (9, 4, 7, 1, 8, 2, 16, 3)
    for seconds in delays:
        await delay(transport, seconds, b"%d" % seconds)
    clock.now += 100
    bus.tick()
    assert await taken(transport, calls) == [b"%d" % seconds for seconds in sorted(delays)]


async def test_a_message_whose_time_is_over_in_a_consumed_queue_is_a_dead_letter_unless_it_is_in_hand() -> None:
    clock, inbox = Clock(), Inbox()
    bus, transport = await on_a_clock(clock)
    queue = a_queue(message_ttl=1500, dead_letter_exchange=transport.topology.dead.name)
    subscription = await transport.subscribe(queue, inbox, prefetch=1)
    for body in (b"1", b"2"):
        await transport.publish(Route("events", "q"), Message(body, "call"), deadline=float("inf"))
    await inbox.holds(1)
    clock.now += 1.5
    bus.tick()
    assert await dead_letters(transport) == [b"2"]
    await subscription.stop()
    inbox.deliveries[0].nack()
    bus.tick()
    assert await dead_letters(transport) == [b"1"]


async def test_what_no_binding_takes_goes_to_the_alternate_exchange() -> None:
    transport = await opened()
    other, main = Exchange("other", "fanout"), Exchange("main", "topic", alternate="other")
    queues = [a_queue("1", main, "a"), a_queue("2", other, "")]
    for queue in queues:
        await taken(transport, queue)
    await put(transport, b"taken", exchange="main", routing_key="a")
    await put(transport, b"left over", exchange="main", routing_key="b")
    assert [await taken(transport, queue) for queue in queues] == [[b"taken"], [b"left over"]]


async def test_an_alternate_exchange_that_does_not_exist_takes_nothing() -> None:
    transport = await opened()
    await taken(transport, a_queue(exchange=Exchange("main", "topic", alternate="other")))
    with pytest.raises(UnroutableError):
        await put(transport, exchange="main", routing_key="b")


async def test_an_exchange_with_another_alternate_is_a_mismatch() -> None:
    transport = await opened()
    await taken(transport, a_queue())
    with pytest.raises(TopologyMismatchError, match="exists as topic and is declared as topic with the alternate dead"):
        await taken(transport, a_queue("q2", Exchange("events", "topic", alternate="dead")))


async def test_exchanges_that_lead_to_each_other_deliver_once() -> None:
    transport = await opened()
    one, two = Exchange("one", "topic"), Exchange("two", "topic")
    queues = [a_queue("1", one, "#"), a_queue("2", two, "#")]
    for queue in queues:
        await taken(transport, queue)
    transport._bus.declare_ladder(Ladder((), (), (Bridge(two, Binding(one, "#")), Bridge(one, Binding(two, "#")))))
    await put(transport, exchange="one", routing_key="a")
    assert [await taken(transport, queue) for queue in queues] == [[b"x"], [b"x"]]


async def test_a_delayed_message_does_not_keep_a_bus_that_nobody_uses() -> None:
    gc.disable()
    try:
        transport = await opened(named_bus("delaying"))
        await taken(transport, transport.topology.call_queue("calendar", "main"))
        await delay(transport, 1)
        gone = weakref.ref(transport._bus)
        await transport.close()
        del transport
        assert gone() is None
    finally:
        gc.enable()


def test_a_delay_goes_on_in_the_next_loop() -> None:
    bus = MemoryBus()

    async def leave() -> None:
        transport = await opened(bus)
        await taken(transport, transport.topology.call_queue("calendar", "main"))
        await delay(transport, 1)

    async def take() -> list[bytes]:
        transport, inbox = await opened(bus), Inbox(ack=True)
        await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=1)
        return await inbox.holds(1)

    asyncio.run(leave())
    assert asyncio.run(take()) == [b"x"]


async def test_settled_messages_are_not_kept() -> None:
    transport, inbox = await opened(), Inbox(ack=True)
    await transport.subscribe(a_queue(), inbox, prefetch=4)
    body = b"x" * 10_000
    before = sys.getrefcount(body)
    for _ in range(10):
        await put(transport, body)
    await inbox.holds(10)
    inbox.deliveries.clear()
    assert sys.getrefcount(body) == before


# --- streams ----------------------------------------------------------------------------------------------------------


def a_stream(**arguments: Any) -> Stream:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return Stream("s", {"x-queue-type": "stream", **named}, (Binding(TOPIC, "q"),))


async def test_a_stream_forgets_what_is_older_than_its_age() -> None:
    now = 1000.0
    transport = MemoryTransport(clock=lambda: now)
    await transport.open()
    stream = a_stream(max_age="1m")
    assert await transport.read(stream) == [b"{}"]
    for body in (b"1", b"2"):
        now += 30
        await transport.publish(Route("events", "q"), Message(body, "cancel"), deadline=now + 1)
    assert await transport.read(stream) == [b"{}", b"1", b"2"]
    now += 1
    assert await transport.read(stream) == [b"1", b"2"]
    now += 60
    assert await transport.read(stream) == []
    await transport.publish(Route("", "s"), Message(b"3", "cancel"), deadline=now + 1)
    assert await transport.read(stream) == [b"3"]


@pytest.mark.parametrize(
    ("age", "wanted"), [("1D", 86_400), ("90s", 90), ("2m", 120), ("3h", 10_800), ("1M", 2_592_000), ("1Y", 31_536_000)]
)
def test_an_age_is_read_as_the_broker_reads_it(age: str, wanted: int) -> None:
    assert age_seconds(age) == wanted


@pytest.mark.parametrize("age", ["", "D", "1d", "1 D", "1.5h", "-1D", 86_400])
async def test_an_age_that_the_broker_would_refuse_is_refused(age: Any) -> None:
    with pytest.raises(ConfigurationError, match="age"):
        await (await opened()).read(a_stream(max_age=age))


async def test_a_stream_with_other_arguments_is_a_mismatch() -> None:
    transport = await opened()
    await transport.read(a_stream(max_age="1D"))
    with pytest.raises(TopologyMismatchError, match="x-max-age is '1D' there and '2D' here"):
        await transport.read(a_stream(max_age="2D"))


async def test_a_stream_argument_that_would_change_what_is_kept_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="x-max-length-bytes"):
        await (await opened()).read(a_stream(max_length_bytes=1000))


async def test_dead_letters_may_end_in_a_stream() -> None:
    transport, inbox = await opened(), Inbox()
    await transport.read(a_stream())
    await transport.subscribe(a_queue(routing_key="calls", dead_letter_exchange="events"), inbox, prefetch=1)
    transport._bus.publish(Route("", "q"), Message(b"x", "call"))
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    assert await transport.read(a_stream()) == [b"{}", b"x"]


async def test_transports_of_one_bus_meet_and_others_do_not() -> None:
    bus = MemoryBus()
    one, two, alone = await opened(bus), await opened(bus), await opened()
    await taken(one, a_queue())
    await put(two)
    assert await taken(one, a_queue()) == [b"x"]
    with pytest.raises(UnroutableError):
        await put(alone)


async def test_a_named_bus_is_shared_while_someone_holds_it() -> None:
    transport = await opened(named_bus("shared"))
    await taken(transport, a_queue())
    await put(transport)
    await transport.close()
    assert await taken(await opened(named_bus("shared")), a_queue()) == [b"x"]
    assert named_bus("shared") is not named_bus("other")


async def test_a_named_bus_is_gone_at_once_with_the_last_that_holds_it() -> None:
    gc.disable()
    try:
        transport, inbox = await opened(named_bus("brief")), Inbox()
        await transport.subscribe(a_queue(), inbox, prefetch=2)
        await put(transport)
        await put(transport)
        await inbox.holds(2)
        inbox.deliveries[0].ack()
        await transport.close()
        del transport, inbox
        with pytest.raises(UnroutableError):
            await put(await opened(named_bus("brief")))
    finally:
        gc.enable()


def test_a_bus_goes_on_in_the_next_loop_when_it_is_unused() -> None:
    bus = MemoryBus()

    async def leave() -> None:
        transport = await opened(bus)
        await taken(transport, a_queue())
        await put(transport)

    async def take() -> list[bytes]:
        return await taken(await opened(bus), a_queue())

    asyncio.run(leave())
    assert asyncio.run(take()) == [b"x"]


def test_a_bus_goes_on_after_a_loop_that_was_interrupted_before_its_turn() -> None:
    bus = MemoryBus()

    async def interrupted() -> None:
        transport = await opened(bus)
        await transport.subscribe(a_queue(), Inbox(), prefetch=1)
        bus.publish(Route("events", "q"), Message(b"x", "call"))
        await transport.close()
        raise KeyboardInterrupt

    async def take() -> list[bytes]:
        return await taken(await opened(bus), a_queue())

    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted())
    loop.close()
    assert asyncio.run(take()) == [b"x"]


def test_a_bus_with_subscriptions_refuses_another_loop() -> None:
    bus = MemoryBus()

    async def subscribe() -> None:
        await (await opened(bus)).subscribe(a_queue(), Inbox(), prefetch=1)

    asyncio.run(subscribe())
    with pytest.raises(TransportError, match="another event loop"):
        asyncio.run(subscribe())
