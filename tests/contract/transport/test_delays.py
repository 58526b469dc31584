"""Delaying: a message arrives in the second it was told, whatever else waits."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from grundlag_bus.errors import UnroutableError
from grundlag_bus.transport import Delivery, Message, Transport
from grundlag_bus.transport.topology import Queue
from tests.support.eventually import eventually
from tests.support.transports import Inbox, in_time, reconnect, send


@dataclass
class Arrivals:
    """Notes which message arrived how long after it was published, and settles it."""

    published: dict[bytes, float] = field(default_factory=dict)
    took: dict[bytes, list[float]] = field(default_factory=dict)

    def __call__(self, delivery: Delivery) -> None:
        body = delivery.message.body
        self.took.setdefault(body, []).append(time.time() - self.published[body])
        delivery.ack()

    async def publish(self, transport: Transport, body: bytes, seconds: float, provider_id: str = "calendar") -> None:
        self.published[body] = time.time()
        route = transport.topology.delayed_call_route(provider_id, "main", seconds)
        await transport.publish(route, Message(body, "call"), deadline=in_time())

    def assert_in_its_second(self, body: bytes, seconds: int) -> None:
        (took,) = self.took[body]
        assert seconds - 0.01 <= took < seconds + 1, f"{body!r} took {took} s"


def calls(transport: Transport, provider_id: str = "calendar") -> Queue:
    return transport.topology.call_queue(provider_id, "main")


async def warm_up(transport: Transport) -> None:
    """Have the ladder declared, so that it is not what a test measures. What does it stays in there for days."""
    await Arrivals().publish(transport, b"much later", 2**19)


async def test_delays_end_in_their_second_and_in_their_order(transport: Transport, peer: Transport) -> None:
    """None waits behind another: the longest is published first, and each leaves when its own time has come."""
    arrivals = Arrivals()
    await peer.subscribe(calls(peer), arrivals, prefetch=10)
    await warm_up(transport)
    for seconds in (3, 2, 1, 0):
        await arrivals.publish(transport, b"%d" % seconds, seconds)
    await eventually(lambda: len(arrivals.took) == 4)
    assert list(arrivals.took) == [b"0", b"1", b"2", b"3"]
    for seconds in range(4):
        arrivals.assert_in_its_second(b"%d" % seconds, seconds)


async def test_a_part_of_a_second_is_a_second(transport: Transport) -> None:
    arrivals = Arrivals()
    await transport.subscribe(calls(transport), arrivals, prefetch=10)
    await warm_up(transport)
    await arrivals.publish(transport, b"x", 0.1)
    await eventually(lambda: arrivals.took)
    arrivals.assert_in_its_second(b"x", 1)


async def test_messages_of_one_delay_keep_their_order(transport: Transport) -> None:
    arrivals = Arrivals()
    await transport.subscribe(calls(transport), arrivals, prefetch=3)
    bodies = [b"%d" % number for number in range(20)]
    for body in bodies:
        await arrivals.publish(transport, body, 1)
    await eventually(lambda: len(arrivals.took) == 20)
    assert list(arrivals.took) == bodies


async def test_a_delayed_message_is_whole_and_counts_from_the_start(transport: Transport) -> None:
    inbox = Inbox(ack=True)
    message = Message(b"body", "call", "c-1", "ada")
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    route = transport.topology.delayed_call_route("calendar", "main", 1)
    await transport.publish(route, message, deadline=in_time())
    await inbox.holds(1)
    delivery = inbox.deliveries[0]
    assert (delivery.message, delivery.redelivered, delivery.lost) == (message, False, 0)


async def test_a_missing_call_queue_makes_a_dead_letter_and_delays_nobody(
    transport: Transport, peer: Transport
) -> None:
    arrivals, dead = Arrivals(), Inbox(ack=True)
    await peer.subscribe(peer.topology.dead_queue, dead, prefetch=10)
    await peer.subscribe(calls(peer), arrivals, prefetch=10)
    await warm_up(transport)
    orphan = Message(b"orphan", "call", "c-1", "ada")
    for _ in range(40):  # the broker has 32 dead letters under way at most
        route = transport.topology.delayed_call_route("nowhere", "main", 1)
        await transport.publish(route, orphan, deadline=in_time())
    await arrivals.publish(transport, b"x", 1)
    await arrivals.publish(transport, b"y", 2)
    await eventually(lambda: len(arrivals.took) == 2)
    arrivals.assert_in_its_second(b"x", 1)
    arrivals.assert_in_its_second(b"y", 2)
    await dead.holds(40)
    assert {delivery.message for delivery in dead.deliveries} == {orphan}


async def test_without_a_delay_a_missing_call_queue_is_known_at_once(transport: Transport) -> None:
    with pytest.raises(UnroutableError):
        await Arrivals().publish(transport, b"x", 0, "nowhere")


async def test_a_delay_outlives_the_connections_of_both_ends(transport: Transport, peer: Transport) -> None:
    arrivals = Arrivals()
    await peer.subscribe(calls(peer), arrivals, prefetch=10)
    await warm_up(transport)
    await arrivals.publish(transport, b"before", 3)
    await asyncio.gather(reconnect(transport), reconnect(peer))
    await arrivals.publish(transport, b"after", 1)
    await eventually(lambda: len(arrivals.took) == 2)
    arrivals.assert_in_its_second(b"before", 3)
    arrivals.assert_in_its_second(b"after", 1)


async def test_a_delay_outlives_its_publisher(transport: Transport, peer: Transport) -> None:
    arrivals = Arrivals()
    await peer.subscribe(calls(peer), arrivals, prefetch=10)
    await warm_up(transport)
    await arrivals.publish(transport, b"x", 1)
    await transport.close()
    await eventually(lambda: arrivals.took)
    arrivals.assert_in_its_second(b"x", 1)


async def test_many_that_are_first_to_delay_all_arrive(transport: Transport, peer: Transport) -> None:
    """All of them need the ladder at once, from two sides."""
    arrivals = Arrivals()
    await peer.subscribe(calls(peer), arrivals, prefetch=0)
    bodies = [b"%d" % number for number in range(60)]
    await asyncio.gather(
        *(arrivals.publish((transport, peer)[number % 2], body, 1 + number % 3) for number, body in enumerate(bodies))
    )
    await eventually(lambda: len(arrivals.took) == 60)
    assert all(len(took) == 1 for took in arrivals.took.values())


async def test_no_more_than_prefetch_of_what_was_delayed_is_in_hand(transport: Transport) -> None:
    inbox, arrivals = Inbox(), Arrivals()
    await transport.subscribe(calls(transport), inbox, prefetch=2)
    for number in range(5):
        await arrivals.publish(transport, b"%d" % number, 1)
    await asyncio.sleep(1.3)
    assert await inbox.holds(2) == [b"0", b"1"]
    for count in (3, 4, 5):
        inbox.deliveries[count - 3].ack()
        await inbox.holds(count)


# --- lost deliveries --------------------------------------------------------------------------------------------------


async def test_a_delivery_tells_how_often_it_was_lost(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    await send(transport, b"x")
    for lost in range(4):
        await inbox.holds(lost + 1)
        await reconnect(transport)
    await inbox.holds(5)
    assert [delivery.lost for delivery in inbox.deliveries] == [0, 1, 2, 3, 4]
    assert [delivery.redelivered for delivery in inbox.deliveries] == [False, True, True, True, True]


async def test_a_message_that_is_published_again_counts_from_the_start(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    await send(transport, b"x")
    await inbox.holds(1)
    await reconnect(transport)
    await inbox.holds(2)
    assert inbox.deliveries[1].lost == 1
    route = transport.topology.delayed_call_route("calendar", "main", 1)
    await transport.publish(route, inbox.deliveries[1].message, deadline=in_time())
    inbox.deliveries[1].ack()
    await inbox.holds(3)
    assert inbox.deliveries[2].lost == 0
    await reconnect(transport)
    await inbox.holds(4)
    assert inbox.deliveries[3].lost == 1
