"""Publishing: what was accepted is on the bus, and what was not says so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial

import pytest

from grundlag_bus.errors import (
    PublishExpiredError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.transport import Message, Transport
from tests.support.eventually import eventually
from tests.support.transports import Inbox, OneBus, in_time, send


async def test_a_confirmed_message_waits_for_a_consumer(transport: Transport, peer: Transport) -> None:
    await (await peer.subscribe(peer.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)).close()
    await send(transport, b"early")
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=1)
    assert await inbox.holds(1) == [b"early"]
    assert not inbox.deliveries[0].redelivered
    assert inbox.deliveries[0].message.routing_key == "calendar.main"


async def test_a_message_that_no_queue_takes_is_unroutable_at_once(transport: Transport) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(UnroutableError):
            await send(transport, b"x", provider_id="nobody")


async def test_unroutable_messages_do_not_disturb_those_beside_them(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=50)
    sent = [
        send(transport, str(number).encode(), provider_id="nobody" if number % 2 else "calendar")
        for number in range(40)
    ]
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), UnroutableError] * 20
    assert sorted(map(int, await inbox.holds(20))) == list(range(0, 40, 2))


async def test_a_passed_deadline_refuses_and_sends_nothing(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=1)
    route = transport.topology.call_route("calendar", "main")
    written: list[bool] = []
    with pytest.raises(PublishExpiredError):
        await transport.publish(
            route, Message(b"late", "call"), deadline=transport.now() - 1, written=lambda: written.append(True)
        )
    assert not written
    await send(transport, b"in time")
    assert await inbox.holds(1) == [b"in time"]


async def test_trying_again_after_a_passed_deadline_lets_others_have_their_turn(transport: Transport) -> None:
    route, turns = transport.topology.call_route("calendar", "main"), 0
    others_turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(others_turn.set_result, None)
    while not others_turn.done():
        turns += 1
        assert turns < 100
        with pytest.raises(PublishExpiredError):
            await transport.publish(route, Message(b"late", "call"), deadline=transport.now() - 1)


async def test_a_transport_tells_the_time_of_its_deadlines(transport: Transport) -> None:
    assert abs(transport.now() - time.time()) < 5


async def test_a_cancelled_publish_tells_whether_it_was_written(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=100)
    route = transport.topology.call_route("calendar", "main")
    told: list[bytes] = []
    await send(transport, b"first")
    for turns in range(8):
        body = b"%d" % turns
        publish = transport.publish(
            route, Message(body, "call"), deadline=in_time(), written=partial(told.append, body)
        )
        task = asyncio.ensure_future(publish)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await send(transport, b"last")
    await eventually(lambda: b"last" in inbox.bodies)
    assert set(inbox.bodies) <= {*told, b"first", b"last"}
    assert b"0" not in told  # its publish never began
    assert told


@pytest.mark.parametrize("size", [0, 1, 200_000, 4 * 1024 * 1024 + 500])
async def test_a_body_of_any_size_arrives_whole(transport: Transport, peer: Transport, size: int) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=1)
    body = bytes(range(256)) * (size // 256 + 1)
    await send(transport, body[:size], b"next")
    assert await inbox.holds(2) == [body[:size], b"next"]


async def test_large_and_small_bodies_side_by_side_stay_whole(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=20)
    bodies = [bytes([number]) * (300_000 if number % 3 == 0 else number) for number in range(20)]
    await asyncio.gather(*(send(transport, body) for body in bodies))
    assert sorted(await inbox.holds(20)) == sorted(bodies)


@pytest.mark.parametrize(
    "message",
    [Message(b"x", "call"), Message(b"x", "reply", "c-1"), Message("ä€".encode(), "reply", "ü" * 50, "m" * 80)],
)
async def test_the_properties_of_a_message_are_kept(transport: Transport, peer: Transport, message: Message) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=1)
    await transport.publish(transport.topology.call_route("calendar", "main"), message, deadline=in_time())
    await inbox.holds(1)
    assert inbox.deliveries[0].message == message


async def test_a_reply_reaches_its_mailbox_and_no_other(transport: Transport, peer: Transport) -> None:
    ada, bob = Inbox(ack=True), Inbox(ack=True)
    await transport.subscribe(transport.topology.mailbox("ada"), ada, prefetch=10)
    await peer.subscribe(peer.topology.mailbox("bob"), bob, prefetch=10)
    for mailbox in ("ada", "bob", "ada", "bob"):
        route = peer.topology.reply_route(mailbox)
        await peer.publish(route, Message(mailbox.encode(), "reply"), deadline=in_time())
    assert await ada.holds(2) == [b"ada", b"ada"]
    assert await bob.holds(2) == [b"bob", b"bob"]


async def test_a_reply_to_a_mailbox_that_never_was_is_unroutable(transport: Transport) -> None:
    with pytest.raises(UnroutableError):
        await transport.publish(transport.topology.reply_route("bob"), Message(b"x", "reply"), deadline=in_time())


async def test_a_mailbox_keeps_replies_while_its_process_is_away(transport: Transport, peer: Transport) -> None:
    left = replace(transport.topology.mailbox("ada"), passing=False)  # its process died, and closed nothing
    await (await transport.subscribe(left, Inbox(), prefetch=1)).close()
    await peer.publish(peer.topology.reply_route("ada"), Message(b"x", "reply"), deadline=in_time())
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.mailbox("ada"), inbox, prefetch=1)
    assert await inbox.holds(1) == [b"x"]


async def test_a_thousand_messages_at_once_arrive_once_each(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=100)
    await asyncio.gather(*(send(transport, str(number).encode()) for number in range(1000)))
    assert sorted(map(int, await inbox.holds(1000))) == list(range(1000))


async def test_messages_of_one_publisher_keep_their_order(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=7)
    tasks = [asyncio.create_task(send(transport, str(number).encode())) for number in range(200)]
    await asyncio.gather(*tasks)
    assert list(map(int, await inbox.holds(200))) == list(range(200))


async def test_publishing_from_within_a_receiver_s_turn_works(transport: Transport, peer: Transport) -> None:
    """A worker answers each call: publishes and settles from tasks that its receiver starts."""
    replies = Inbox(ack=True)
    await transport.subscribe(transport.topology.mailbox("ada"), replies, prefetch=100)
    calls = Inbox()
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), calls, prefetch=100)
    await send(transport, *(str(number).encode() for number in range(50)))
    await calls.holds(50)
    for delivery in calls.deliveries:
        message = Message(delivery.message.body, "reply")
        await peer.publish(peer.topology.reply_route("ada"), message, deadline=in_time())
        delivery.ack()
    assert list(map(int, await replies.holds(50))) == list(range(50))


async def test_a_cancelled_publish_does_not_harm_the_next(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=100)
    for turns in range(12):
        task = asyncio.create_task(send(transport, b"cancelled" * 20_000))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await send(transport, str(turns).encode())
    await send(transport, b"last")
    await eventually(lambda: b"last" in inbox.bodies)
    kept = [body for body in inbox.bodies if not body.startswith(b"cancelled")]
    assert kept == [*(str(turns).encode() for turns in range(12)), b"last"]


async def test_close_leaves_no_publish_hanging(transport: Transport, peer: Transport) -> None:
    await (await peer.subscribe(peer.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)).close()
    publishes = [asyncio.create_task(send(transport, b"x" * 1000)) for _ in range(100)]
    await asyncio.sleep(0)
    await transport.close()
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    possible = (type(None), PublishUnsureError, PublishRefusedError, TransportClosedError)
    assert {type(outcome) for outcome in outcomes} <= set(possible)


async def test_what_was_confirmed_before_close_is_on_the_bus(transport: Transport, peer: Transport) -> None:
    inbox = Inbox(ack=True)
    await (await peer.subscribe(peer.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)).close()
    await send(transport, b"1", b"2")
    await transport.close()
    await peer.subscribe(peer.topology.call_queue("calendar", "main"), inbox, prefetch=10)
    assert await inbox.holds(2) == [b"1", b"2"]


async def test_a_transport_that_is_not_open_says_so(bus: OneBus) -> None:
    transport = bus.transport()
    await _says_closed(transport)
    await transport.open()
    await transport.open()
    await transport.close()
    await transport.close()
    await _says_closed(transport)


async def test_a_closed_transport_cannot_be_opened_again(bus: OneBus, transport: Transport) -> None:
    await transport.close()
    with pytest.raises(TransportClosedError):
        await transport.open()
    never_opened = bus.transport()
    await never_opened.close()
    with pytest.raises(TransportClosedError):
        await never_opened.open()


async def _says_closed(transport: Transport) -> None:
    with pytest.raises(TransportClosedError):
        await send(transport, b"x")
    with pytest.raises(TransportClosedError):
        await transport.subscribe(transport.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)
    with pytest.raises(TransportClosedError):
        await transport.read(transport.topology.manifests)


async def test_namespaces_do_not_see_each_other(bus: OneBus, transport: Transport) -> None:
    other = await bus.open(namespace=f"{bus.namespace}-other")
    here, there = Inbox(ack=True), Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), here, prefetch=10)
    with pytest.raises(UnroutableError):
        await send(other, b"x")
    await other.subscribe(other.topology.call_queue("calendar", "main"), there, prefetch=10)
    await send(transport, b"here", b"here")
    await send(other, b"there", b"there")
    assert await here.holds(2) == [b"here", b"here"]
    assert await there.holds(2) == [b"there", b"there"]
    assert await other.read(other.topology.manifests) == [b"{}"]
    await other.publish(other.topology.manifests.route, Message(b"[]", "manifest"), deadline=in_time())
    assert await transport.read(transport.topology.manifests) == [b"{}"]
