"""Pausing: a subscription takes nothing for a while, and holds what it has."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus.transport import Transport
from grundlag_bus.transport.topology import Queue
from tests.support.eventually import eventually
from tests.support.transports import Inbox, reconnect, send


def calls(transport: Transport) -> Queue:
    return transport.topology.call_queue("calendar", "main")


async def test_a_paused_subscription_takes_nothing_and_can_settle(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox()
    subscription = await transport.subscribe(calls(transport), first, prefetch=10)
    await send(transport, b"1", b"2", b"3")
    await first.holds(3)
    await subscription.pause()
    await send(transport, b"4")
    await peer.subscribe(calls(peer), second, prefetch=10)
    await second.holds(1)
    first.deliveries[0].ack()
    first.deliveries[1].nack()
    assert await second.holds(2) == [b"4", b"2"]
    await subscription.pause()
    await subscription.close()
    assert await second.holds(3) == [b"4", b"2", b"3"]
    await first.holds(3)


async def test_what_came_before_the_pause_was_through_is_given_back_uncounted(
    transport: Transport, peer: Transport
) -> None:
    first, second = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=1000)
    sending = asyncio.create_task(send(peer, *(str(number).encode() for number in range(200))))
    await eventually(lambda: len(first) >= 5)
    await subscription.pause()
    kept = len(first)
    await sending
    assert len(first) == kept
    await peer.subscribe(calls(peer), second, prefetch=1000)
    await second.holds(200 - kept)
    assert not set(first.bodies) & set(second.bodies)
    if transport.broker.counts_only_losses:
        assert {delivery.lost for delivery in second.deliveries} == {0}


async def test_a_resumed_subscription_takes_again(transport: Transport) -> None:
    inbox = Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=10)
    for times in range(1, 4):
        await subscription.pause()
        await send(transport, b"x")
        await asyncio.sleep(0.02)
        await inbox.holds(times - 1)
        subscription.resume()
        subscription.resume()
        await inbox.holds(times)


async def test_after_a_pause_no_more_than_prefetch_is_in_hand(transport: Transport, peer: Transport) -> None:
    inbox, other = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=3)
    await send(transport, *(b"%d" % number for number in range(9)))
    await inbox.holds(3)
    for _ in range(3):
        await subscription.pause()
        subscription.resume()
    inbox.deliveries[0].ack()
    await inbox.holds(4)
    await subscription.pause()
    subscription.resume()
    inbox.deliveries[3].ack()
    await inbox.holds(5)
    await peer.subscribe(calls(peer), other, prefetch=1)
    assert await other.holds(4) == [b"5", b"6", b"7", b"8"]
    await inbox.holds(5)


async def test_after_a_pause_there_is_room_for_as_much_as_before(transport: Transport) -> None:
    inbox = Inbox()
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=4)
    await send(transport, *(b"%d" % number for number in range(16)))
    await inbox.holds(4)
    await subscription.pause()
    inbox.deliveries[0].ack()
    subscription.resume()
    await inbox.holds(5)
    for delivery in list(inbox.deliveries):
        delivery.ack()
    await eventually(lambda: len(inbox) == 9, within=15)
    for delivery in list(inbox.deliveries):
        delivery.ack()
    await inbox.holds(13)


async def test_resuming_at_once_loses_and_repeats_nothing(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=5)
    sending = asyncio.create_task(send(peer, *(str(number).encode() for number in range(100))))
    for turns in range(20):
        pausing = asyncio.create_task(subscription.pause())
        for _ in range(turns):
            await asyncio.sleep(0)
        subscription.resume()
        await pausing
    await sending
    await eventually(lambda: len(inbox) >= 100)
    assert sorted(inbox.bodies, key=int) == [str(number).encode() for number in range(100)]


async def test_a_pause_that_is_resumed_and_paused_again_is_a_pause(transport: Transport) -> None:
    inbox = Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=5)
    for _ in range(10):
        pausing = asyncio.create_task(subscription.pause())
        await asyncio.sleep(0)
        subscription.resume()
        await subscription.pause()
        await send(transport, b"x")
        await asyncio.sleep(0.01)
        assert not inbox.deliveries
        await pausing
        subscription.resume()
        await inbox.holds(1)
        inbox.deliveries.clear()


@pytest.mark.parametrize("how", ["stop", "close"])
async def test_a_paused_subscription_can_be_ended_and_stays_so(transport: Transport, peer: Transport, how: str) -> None:
    first, second = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=5)
    await send(transport, b"1")
    await first.holds(1)
    pausing = asyncio.create_task(subscription.pause())
    await asyncio.sleep(0)
    await getattr(subscription, how)()
    await pausing
    subscription.resume()
    await subscription.pause()
    subscription.resume()
    await send(transport, b"2")
    await peer.subscribe(calls(peer), second, prefetch=5)
    assert await second.holds(2 if how == "close" else 1) == [*([b"1"] if how == "close" else []), b"2"]
    await first.holds(1)


async def test_a_pause_outlives_a_lost_connection(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(ack=True), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=5)
    await subscription.pause()
    await reconnect(transport)
    await send(peer, b"1")
    await asyncio.sleep(0.1)
    assert not first.deliveries
    subscription.resume()
    assert await first.holds(1) == [b"1"]
    await subscription.close()
    await peer.subscribe(calls(peer), second, prefetch=5)
    await send(peer, b"2")
    assert await second.holds(1) == [b"2"]


async def test_what_is_in_hand_over_a_pause_and_lost_is_counted_once(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=5)
    await send(peer, b"1")
    await first.holds(1)
    await subscription.pause()
    await reconnect(transport)
    await peer.subscribe(calls(peer), second, prefetch=5)
    await second.holds(1)
    assert second.deliveries[0].lost == 1
