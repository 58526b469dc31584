"""Deliveries that are not settled in time are taken back. A broker before 4.3 has but a time-out of its own."""

from __future__ import annotations

import asyncio

from grundlag_bus.transport import Transport
from grundlag_bus.transport.topology import Queue
from tests.support.eventually import eventually
from tests.support.transports import Inbox, send

SECONDS = 1.0


def calls(transport: Transport) -> Queue:
    return transport.topology.call_queue("calendar", "main")


async def test_what_is_not_settled_in_time_comes_again_and_is_not_counted(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=2, consumer_timeout=SECONDS)
    await send(transport, b"slow", b"quick")
    await inbox.holds(2)
    inbox.deliveries[1].ack()
    if not transport.broker.honours_consumer_timeout:
        await asyncio.sleep(2 * SECONDS)
        await inbox.holds(2)
        return
    await eventually(lambda: len(inbox) == 3)
    again = inbox.deliveries[2]
    assert (again.message.body, again.redelivered, again.lost) == (b"slow", True, 0)
    inbox.deliveries[0].ack()
    again.ack()
    await asyncio.sleep(2 * SECONDS)
    await inbox.holds(3)
    await send(transport, b"next")
    await eventually(lambda: inbox.bodies[-1] == b"next")
    assert transport.state.consumers_actual == 1


async def test_settling_in_time_costs_nothing(transport: Transport) -> None:
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=1, consumer_timeout=SECONDS)
    for number in range(4):
        await send(transport, b"%d" % number)
        await eventually(lambda wanted=number + 1: len(inbox) == wanted)  # type: ignore[misc]  # a default binds it
        await asyncio.sleep(SECONDS * 0.4)
        inbox.deliveries[-1].ack()
    await asyncio.sleep(SECONDS * 1.5)
    assert inbox.bodies == [b"0", b"1", b"2", b"3"]


async def test_another_consumer_may_get_what_was_taken_back(transport: Transport, peer: Transport) -> None:
    first, second = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), first, prefetch=1, consumer_timeout=SECONDS)
    await send(transport, b"slow")
    await first.holds(1)
    await subscription.stop()
    await peer.subscribe(calls(peer), second, prefetch=1)
    if transport.broker.honours_consumer_timeout:
        assert await second.holds(1) == [b"slow"]
    first.deliveries[0].ack()
    await send(transport, b"next")
    await eventually(lambda: second.bodies[-1:] == [b"next"])
