"""Delivering: each message is in one hand at a time, until it is settled."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace

import pytest

from grundlag_bus.errors import TopologyMismatchError, UnroutableError
from grundlag_bus.transport import Delivery, Message, Transport
from grundlag_bus.transport.topology import Queue, Route
from tests.support.eventually import eventually
from tests.support.transports import Inbox, OneBus, in_time, reconnect, send

SETTLINGS = ("ack", "nack", "reject")


def calls(transport: Transport) -> Queue:
    return transport.topology.call_queue("calendar", "main")


async def die(transport: Transport, body: bytes) -> None:
    """Publish to where dead letters go."""
    await transport.publish(Route(transport.topology.dead.name, "x"), Message(body, "call"), deadline=in_time())


async def test_no_more_than_prefetch_is_in_hand(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    await transport.subscribe(calls(transport), first, prefetch=2)
    await send(transport, b"1", b"2", b"3", b"4", b"5")
    await first.holds(2)
    await peer.subscribe(calls(peer), second, prefetch=10)
    assert await second.holds(3) == [b"3", b"4", b"5"]
    assert await first.holds(2) == [b"1", b"2"]


async def test_a_delivery_is_held_until_it_is_settled_or_its_connection_is_lost(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=4)
    await send(transport, b"1", b"2", b"3", b"4")
    await inbox.holds(4)
    deliveries = inbox.deliveries[:4]
    assert all(delivery.held for delivery in deliveries)
    for delivery, settling in zip(deliveries, SETTLINGS, strict=False):
        getattr(delivery, settling)()
    assert [delivery.held for delivery in deliveries] == [False, False, False, True]
    await reconnect(transport)
    assert not deliveries[3].held


@pytest.mark.parametrize("settling", SETTLINGS)
async def test_settling_makes_room_for_the_next(transport: Transport, settling: str) -> None:
    inbox = Inbox()
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=2)
    await send(transport, b"1", b"2", b"3", b"4")
    await inbox.holds(2)
    for delivery in list(inbox.deliveries):
        getattr(delivery, settling)()
    assert await inbox.holds(4) == [b"1", b"2", *([b"1", b"2"] if settling == "nack" else [b"3", b"4"])]
    await subscription.close()


async def test_messages_are_handed_out_again_only_when_given_back(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(calls(peer), inbox, prefetch=3)
    await send(transport, *(b"x",) * 20)
    await inbox.holds(20)
    assert not any(delivery.redelivered for delivery in inbox.deliveries)


@pytest.mark.parametrize("first", SETTLINGS)
@pytest.mark.parametrize("second", SETTLINGS)
async def test_only_the_first_settling_counts(transport: Transport, peer: Transport, first: str, second: str) -> None:
    inbox, dead, other = Inbox(), Inbox(ack=True), Inbox(ack=True)
    await peer.subscribe(peer.topology.dead_queue, dead, prefetch=10)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=1)
    await send(transport, b"1")
    await inbox.holds(1)
    await subscription.stop()
    getattr(inbox.deliveries[0], first)()
    getattr(inbox.deliveries[0], second)()
    await subscription.close()
    await send(transport, b"fence")
    await peer.subscribe(calls(peer), other, prefetch=1)
    assert await other.holds(2 if first == "nack" else 1) == [*([b"1"] if first == "nack" else []), b"fence"]
    await die(peer, b"dead fence")
    assert await dead.holds(2 if first == "reject" else 1) == [*([b"1"] if first == "reject" else []), b"dead fence"]


async def test_a_nacked_message_goes_first_and_to_another(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=1)
    await send(transport, b"1", b"2", b"3")
    await first.holds(1)
    await subscription.stop()
    first.deliveries[0].nack()
    await peer.subscribe(calls(peer), second, prefetch=3)
    assert await second.holds(3) == [b"1", b"2", b"3"]
    assert [delivery.redelivered for delivery in second.deliveries] == [True, False, False]


async def test_a_nacked_message_comes_back_to_a_lone_consumer(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    await send(transport, b"1")
    for times in range(1, 30):
        await inbox.holds(times)
        inbox.deliveries[-1].nack()
    await inbox.holds(30)
    inbox.deliveries[-1].ack()
    assert [delivery.redelivered for delivery in inbox.deliveries] == [False] + [True] * 29


async def test_closing_a_subscription_gives_back_what_is_not_settled(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=3)
    await send(transport, b"1", b"2", b"3")
    await first.holds(3)
    first.deliveries[1].ack()
    await subscription.close()
    await peer.subscribe(calls(peer), second, prefetch=10)
    assert await second.holds(2) == [b"1", b"3"]
    assert all(delivery.redelivered for delivery in second.deliveries)


async def test_closing_a_transport_gives_back_what_is_not_settled(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    await transport.subscribe(calls(transport), first, prefetch=3)
    await peer.subscribe(calls(peer), second, prefetch=1)
    await send(peer, b"1", b"2", b"3", b"4")
    await eventually(lambda: len(first) + len(second) == 4)
    kept = second.bodies[0]
    await transport.close()
    second.deliveries[0].ack()
    for count in (2, 3, 4):
        await second.holds(count)
        second.deliveries[-1].ack()
    assert sorted(second.bodies) == [b"1", b"2", b"3", b"4"]
    assert [delivery.redelivered for delivery in second.deliveries] == [False, True, True, True]
    assert second.bodies[0] == kept


@pytest.mark.parametrize("settling", SETTLINGS)
async def test_settling_what_was_given_back_does_nothing(transport: Transport, peer: Transport, settling: str) -> None:
    first, second, dead = Inbox(), Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=1)
    await send(transport, b"1")
    await first.holds(1)
    await subscription.close()
    getattr(first.deliveries[0], settling)()
    await peer.subscribe(calls(peer), second, prefetch=1)
    await second.holds(1)
    getattr(first.deliveries[0], settling)()
    second.deliveries[0].ack()
    await send(transport, b"fence")
    assert await second.holds(2) == [b"1", b"fence"]
    await transport.close()
    getattr(first.deliveries[0], settling)()
    await peer.subscribe(peer.topology.dead_queue, dead, prefetch=1)
    await die(peer, b"dead fence")
    assert await dead.holds(1) == [b"dead fence"]


async def test_a_stopped_subscription_takes_no_more_and_can_settle(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=10)
    await send(transport, b"1", b"2", b"3")
    await first.holds(3)
    await subscription.stop()
    await send(transport, b"4")
    await peer.subscribe(calls(peer), second, prefetch=10)
    await second.holds(1)
    first.deliveries[0].ack()
    first.deliveries[1].nack()
    assert await second.holds(2) == [b"4", b"2"]
    await subscription.stop()
    await subscription.close()
    assert await second.holds(3) == [b"4", b"2", b"3"]
    await first.holds(3)


@pytest.mark.parametrize("closed", ["subscription", "transport"])
async def test_closing_writes_out_what_is_settled(transport: Transport, peer: Transport, closed: str) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=50)
    await send(transport, *(str(number).encode() for number in range(50)))
    await first.holds(50)
    for delivery in first.deliveries:
        delivery.ack()
    await (subscription.close() if closed == "subscription" else transport.close())
    await peer.subscribe(calls(peer), second, prefetch=200)
    for count in range(1, 30):  # the broker may notice a closed channel a little later
        await send(peer, b"fence")
        assert await second.holds(count) == [b"fence"] * count


async def test_two_consumers_share_the_work(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    await transport.subscribe(calls(transport), first, prefetch=10)
    await peer.subscribe(calls(peer), second, prefetch=10)
    await send(transport, *(str(number).encode() for number in range(20)))
    assert sorted([*(await first.holds(10)), *(await second.holds(10))], key=int) == [b"%d" % n for n in range(20)]


async def test_two_subscriptions_of_one_transport_share_the_work(transport: Transport) -> None:
    first, second = Inbox(), Inbox()
    await transport.subscribe(calls(transport), first, prefetch=5)
    subscription = await transport.subscribe(calls(transport), second, prefetch=5)
    await send(transport, *(b"x",) * 10)
    await first.holds(5)
    await second.holds(5)
    await subscription.close()
    for delivery in list(first.deliveries):
        delivery.ack()
    await first.holds(10)


async def test_queues_do_not_hold_each_other_up(transport: Transport) -> None:
    slow, fast = Inbox(), Inbox(ack=True)
    await transport.subscribe(calls(transport), slow, prefetch=1)
    await transport.subscribe(transport.topology.call_queue("notes", "main"), fast, prefetch=1)
    await send(transport, *(b"x",) * 10)
    await send(transport, *(b"y",) * 10, provider_id="notes")
    assert await fast.holds(10) == [b"y"] * 10
    assert await slow.holds(1) == [b"x"]


async def test_a_rejected_message_is_in_the_dead_queue_whole(transport: Transport, peer: Transport) -> None:
    inbox, dead = Inbox(), Inbox(ack=True)
    message = Message(b"unreadable", "call", "c-1", "ada")
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    await transport.publish(transport.topology.call_route("calendar", "main"), message, deadline=in_time())
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    await peer.subscribe(peer.topology.dead_queue, dead, prefetch=1)
    await dead.holds(1)
    assert dead.deliveries[0].message == message


async def test_a_dead_letter_waits_for_its_reader(transport: Transport, peer: Transport) -> None:
    """Nobody ever read the dead queue when the message is rejected; all who could reject it are gone when one does."""
    inbox, dead = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=1)
    await send(transport, b"1")
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    await subscription.close()
    await transport.close()
    await peer.subscribe(peer.topology.dead_queue, dead, prefetch=1)
    assert await dead.holds(1) == [b"1"]


async def test_a_closed_subscription_can_be_followed_by_another(transport: Transport) -> None:
    for number in range(5):
        inbox = Inbox(ack=True)
        subscription = await transport.subscribe(calls(transport), inbox, prefetch=1)
        await send(transport, str(number).encode())
        assert await inbox.holds(1) == [str(number).encode()]
        await subscription.close()
        await subscription.close()


async def test_a_receiver_that_nobody_else_holds_is_still_called(transport: Transport, peer: Transport) -> None:
    bodies: list[bytes] = []

    def receiver() -> Callable[[Delivery], None]:
        def receive(delivery: Delivery) -> None:
            bodies.append(delivery.message.body)
            delivery.ack()

        return receive

    await transport.subscribe(calls(transport), receiver(), prefetch=1)
    gc.collect()
    await send(peer, b"1")
    await eventually(lambda: bodies == [b"1"])


async def test_a_mailbox_is_free_at_once_for_who_starts_again(transport: Transport, peer: Transport) -> None:
    """The broker may believe for a while that the connection of the one before is alive."""
    await transport.subscribe(transport.topology.mailbox("ada"), Inbox(), prefetch=1)
    async with asyncio.timeout(3):
        again = await peer.subscribe(peer.topology.mailbox("ada"), Inbox(), prefetch=1)
    await again.close()


async def test_a_receiver_is_not_called_after_close(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=100)
    publishing = asyncio.create_task(send(peer, *(b"x",) * 50))
    await eventually(lambda: len(first) >= 5)
    await subscription.close()
    before = len(first)
    await publishing
    await transport.subscribe(calls(transport), second, prefetch=100)
    await second.holds(50)
    assert len(first) == before


async def test_a_queue_with_other_arguments_is_a_mismatch_that_harms_nothing(
    transport: Transport, peer: Transport
) -> None:
    queue, inbox = calls(transport), Inbox(ack=True)
    await transport.subscribe(queue, inbox, prefetch=1)
    changed = replace(queue, arguments={**queue.arguments, "x-delivery-limit": 7})
    with pytest.raises(TopologyMismatchError, match=queue.name):
        await peer.subscribe(changed, Inbox(), prefetch=1)
    await send(peer, b"1")
    await send(transport, b"2")
    assert await inbox.holds(2) == [b"1", b"2"]


async def test_opening_and_closing_twice_is_once(bus: OneBus) -> None:
    transport, inbox = bus.transport(), Inbox(ack=True)
    await transport.open()
    await transport.open()
    await transport.subscribe(calls(transport), inbox, prefetch=1)
    await transport.open()
    await send(transport, b"1")
    await inbox.holds(1)
    await transport.close()
    await transport.close()


async def test_nothing_is_pending_after_close(bus: OneBus) -> None:
    transport = await bus.open()
    await transport.subscribe(calls(transport), Inbox(), prefetch=5)
    await transport.subscribe(transport.topology.mailbox("ada"), Inbox(), prefetch=5)
    await send(transport, *(b"x",) * 10)
    await transport.read(transport.topology.manifests)
    await transport.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_mailbox_is_gone_with_its_subscription(transport: Transport, peer: Transport) -> None:
    subscription = await peer.subscribe(peer.topology.mailbox("gone"), Inbox(), prefetch=1)
    route = transport.topology.reply_route("gone")
    await transport.publish(route, Message(b"x", "reply"), deadline=transport.now() + 10)
    await subscription.close()
    with pytest.raises(UnroutableError):
        await transport.publish(route, Message(b"x", "reply"), deadline=transport.now() + 10)
