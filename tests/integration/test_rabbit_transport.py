"""What RabbitMQ alone does to a transport: it loses connections, cancels consumers, closes channels, lacks memory."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiormq
import pytest
import structlog

from grundlag_bus.errors import (
    BusUnreachableError,
    PublishForbiddenError,
    PublishRefusedError,
    PublishUnsureError,
    TopologyMismatchError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.transport import Message
from grundlag_bus.transport.rabbitmq import Address, RabbitTransport, frames, kept_queue, subscription
from grundlag_bus.transport.rabbitmq.connection import Connection
from grundlag_bus.transport.rabbitmq.consumer import Consumer
from grundlag_bus.transport.rabbitmq.declare import declare_queue
from grundlag_bus.transport.rabbitmq.wire import Taker, Wire
from grundlag_bus.transport.topology import Queue, Route
from ops.rabbitmq.ports import free_ports
from tests.support.broker import Broker
from tests.support.certificates import make_certificates
from tests.support.eventually import eventually
from tests.support.proxy import Proxy, proxy_to
from tests.support.sockets import Socket
from tests.support.strangers import NO_TEXT, NO_TIME, NO_TIME_IN_TABLE, publish_as_stranger
from tests.support.transports import Inbox, administration_of, in_time, send

PROVIDER = "calendar"


@pytest.fixture
async def proxy(amqp_url: str) -> AsyncIterator[Proxy]:
    async with proxy_to(amqp_url) as between:
        yield between


@asynccontextmanager
async def opened(transport: RabbitTransport) -> AsyncIterator[RabbitTransport]:
    """Open a transport; after it is closed nothing of it may be left."""
    await transport.open()
    try:
        yield transport
    finally:
        await transport.close()
        assert transport._publisher is not None
        assert transport._publisher.outstanding == 0
        assert transport._publisher.unconfirmed_bytes == 0


@asynccontextmanager
async def channel_of(url: str) -> AsyncIterator[aiormq.abc.AbstractChannel]:
    """Do to the broker what an operator would."""
    connection = await aiormq.connect(url)
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def left(url: str, queue: Queue) -> int | None:
    """Count what waits in a queue."""
    async with channel_of(url) as channel:
        return (await channel.queue_declare(queue.name, passive=True)).message_count


def calls(transport: RabbitTransport) -> Queue:
    return transport.topology.call_queue(PROVIDER, "main")


async def send_to_nobody(transport: RabbitTransport) -> None:
    """Show that publishing works."""
    with pytest.raises(UnroutableError):
        await send(transport, b"x", provider_id="nobody")


def tasks() -> set[str]:
    """Name what runs besides the test and its proxy."""
    return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}} - {"proxy"}


async def attached(transport: RabbitTransport) -> None:
    """Wait until both connections are up and every consumer is there."""
    await eventually(
        lambda: (
            all(link.connection is not None for link in transport._links)
            and all(each._consumer is not None and each._consumer.is_well() for each in transport._subscriptions)
        )
    )


# --- connections that are lost ----------------------------------------------------------------------------------------


async def test_after_a_cut_consumers_and_publishes_go_on(proxy: Proxy, namespace: str) -> None:
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=10)
        for number in range(3):
            await proxy.cut()
            await eventually(lambda: all(link.connection is None for link in transport._links))
            await send(transport, str(number).encode())  # waits for the connection
            await eventually(lambda: inbox.bodies and inbox.bodies[-1] == str(number).encode())  # noqa: B023  awaited here
    assert set(inbox.bodies) == {b"0", b"1", b"2"}  # more than once where the cut swallowed the ack


async def test_after_a_cut_every_one_of_many_consumers_is_fed(amqp_url: str, proxy: Proxy, namespace: str) -> None:
    """Channel numbers are given out again while others still close theirs."""
    many = 24
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        names = [f"m{number}" for number in range(many)]
        mailboxes = [transport.topology.mailbox(name) for name in names]
        inboxes = [Inbox(ack=True) for _ in mailboxes]
        for mailbox, inbox in zip(mailboxes, inboxes, strict=True):
            await transport.subscribe(mailbox, inbox, prefetch=1)
        for times in range(1, 6):
            await proxy.cut()
            await eventually(lambda: all(link.connection is None for link in transport._links))
            await attached(transport)
            for name in names:
                route = transport.topology.reply_route(name)
                await transport.publish(route, Message(b"%d" % times, "reply"), deadline=in_time())
            await eventually(lambda: all(inbox.bodies and inbox.bodies[-1] == b"%d" % times for inbox in inboxes))  # noqa: B023  awaited here
        async with channel_of(amqp_url) as channel:
            for mailbox in mailboxes:
                await channel.queue_delete(mailbox.name)


async def test_closing_a_channel_late_does_not_deafen_the_next_of_its_number(
    amqp_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await Connection.open(Address.parse(amqp_url), name="test", heartbeat=4, seconds=5)
    ask = connection.ask
    for taker in (None, Taker()):
        closed, go_on = asyncio.Event(), asyncio.Event()

        async def ask_late(request: Coroutine[Any, Any, Any], closed: Any = closed, go_on: Any = go_on) -> None:
            await ask(request)
            closed.set()
            await go_on.wait()

        first = await connection.channel(taker)
        with monkeypatch.context() as patched:
            patched.setattr(connection, "ask", ask_late)
            closing = asyncio.create_task(connection.close_channel(first, taker))
            await closed.wait()
        mine = Taker()
        second = await connection.channel(mine)
        assert second.number == first.number
        go_on.set()
        await closing
        assert connection.wire.takers[second.number] is mine
        await connection.close_channel(second, mine)
    await connection.close()
    assert tasks() == set()


async def test_what_was_in_hand_comes_again_and_its_late_settling_does_nothing(proxy: Proxy, namespace: str) -> None:
    inbox = Inbox()
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        await send(transport, b"1", b"2")
        await inbox.holds(1)
        await proxy.cut()
        await eventually(lambda: len(inbox) == 2)
        for late in ("ack", "nack", "reject"):
            getattr(inbox.deliveries[0], late)()
        assert inbox.deliveries[1].redelivered
        inbox.deliveries[1].ack()
        await eventually(lambda: len(inbox) == 3)
    assert inbox.bodies == [b"1", b"1", b"2"]


async def test_an_outage_is_logged_once_and_its_end_once(
    proxy: Proxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.condition._SETTLED", 0.3)
    with structlog.testing.capture_logs() as logged:
        async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
            await transport.subscribe(calls(transport), Inbox(), prefetch=1)
            for outages in range(1, 3):
                await proxy.refuse()
                await proxy.cut()
                await asyncio.sleep(1.0)  # several tries
                await proxy.accept()
                await attached(transport)
                await eventually(lambda lines=2 * outages: len(logged) >= lines)  # type: ignore[misc]  # a default binds it
    assert [entry["event"] for entry in logged] == ["bus.connection_lost", "bus.connection_recovered"] * 2
    assert "guest:guest" not in str(logged)


async def test_connections_that_are_lost_one_after_the_other_are_one_outage(amqp_url: str, namespace: str) -> None:
    with structlog.testing.capture_logs() as logged:
        async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
            for link in transport._links:
                assert link.connection is not None
                link.connection.wire.abort("a test cut it")
                await eventually(lambda: not transport.state.connected)
                await eventually(lambda: transport.state.connected)
            await eventually(lambda: len(logged) >= 2)
    assert [entry["event"] for entry in logged] == ["bus.connection_lost", "bus.connection_recovered"]
    assert logged[1]["outage_seconds"] < 3, "as long as it lasted, and not until that was sure"


async def test_each_publish_of_a_burst_has_one_end_when_the_connection_is_cut(proxy: Proxy, namespace: str) -> None:
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=500)
        burst = [asyncio.create_task(send(transport, b"%d" % number + b"x" * 5000)) for number in range(500)]
        await eventually(lambda: len(inbox) > 50)
        await proxy.cut()
        outcomes = await asyncio.gather(*burst, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {type(None), PublishUnsureError}
        confirmed = {number for number, outcome in enumerate(outcomes) if outcome is None}
        await attached(transport)
        await eventually(lambda: confirmed <= {int(body.rstrip(b"x")) for body in inbox.bodies})


async def test_what_is_published_to_a_broker_that_is_gone_is_not_taken_for_done(proxy: Proxy, namespace: str) -> None:
    """Before anybody knows that it is gone."""
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), Inbox(ack=True), prefetch=1)
        await send(transport, b"before")
        proxy.freeze()
        publishing = asyncio.create_task(send(transport, b"after"))
        await asyncio.wait({publishing}, timeout=0.2)
        assert not publishing.done()
        await proxy.cut()
        proxy.thaw()
        with pytest.raises(PublishUnsureError):
            await publishing


async def test_a_publish_waits_for_the_connection_until_its_deadline(proxy: Proxy, namespace: str) -> None:
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await proxy.refuse()
        await proxy.cut()
        await eventually(lambda: transport._links[0].connection is None)
        began = time.monotonic()
        with pytest.raises(PublishRefusedError, match="there is no connection"):
            await transport.publish(
                transport.topology.call_route(PROVIDER, "main"), Message(b"x", "call"), deadline=time.time() + 0.3
            )
        assert 0.2 < time.monotonic() - began < 2


async def test_a_removal_counts_when_the_broker_has_heard_of_it(proxy: Proxy, namespace: str) -> None:
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        for body in (b"1", b"2"):
            await transport.publish(transport.topology.dead_route, Message(body, "dead"), deadline=in_time())
        administration = await administration_of(transport)
        first, second = await administration.take(transport.topology.dead_queue.name, 2)
        await first.hold.ack()
        proxy.freeze()
        removing = asyncio.create_task(second.hold.ack())
        await asyncio.sleep(0.1)
        assert not removing.done()
        await proxy.cut()
        with pytest.raises(BusUnreachableError, match="may have it again"):
            await removing
        await administration.close()
        proxy.thaw()
        after = await administration_of(transport)
        taken: list[bytes] = []
        end = asyncio.get_running_loop().time() + 10
        while not taken and asyncio.get_running_loop().time() < end:  # the broker gives back a moment later
            taken += [one.message.body for one in await after.take(transport.topology.dead_queue.name, 2)]
        assert taken == [b"2"]
        await after.close()


async def test_a_half_open_connection_is_noticed_within_ten_seconds(proxy: Proxy, namespace: str) -> None:
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        inbox = Inbox(ack=True)
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        links = transport._links
        proxy.freeze()
        began = time.monotonic()
        await eventually(lambda: all(link.connection is None for link in links), within=15)
        assert time.monotonic() - began < 10
        proxy.thaw()
        await send(transport, b"x")
        await eventually(lambda: inbox.bodies == [b"x"])


async def test_a_request_without_an_answer_costs_its_own_channel_alone(
    proxy: Proxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue without a leader answers nothing; its neighbours keep their consumers and what they have in hand."""
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.connection.ANSWER_TIMEOUT", 0.3)
    well, late = Inbox(), Inbox(ack=True)
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), well, prefetch=1)
        await send(transport, b"1", b"2")
        await well.holds(1)
        connections = [link.connection for link in transport._links]
        proxy.freeze()
        subscribing = asyncio.create_task(transport.subscribe(transport.topology.mailbox("ada"), late, prefetch=1))
        await asyncio.sleep(0.7)
        assert not subscribing.done()
        proxy.thaw()
        await subscribing
        await transport.publish(transport.topology.reply_route("ada"), Message(b"x", "reply"), deadline=in_time())
        await eventually(lambda: late.bodies == [b"x"])
        assert [link.connection for link in transport._links] == connections
        well.deliveries[0].ack()
        await eventually(lambda: well.bodies == [b"1", b"2"])


async def test_a_blocked_loop_is_not_taken_for_a_silent_broker(proxy: Proxy, namespace: str) -> None:
    async with opened(RabbitTransport(proxy.url, namespace=namespace, heartbeat=60)) as transport:
        wire = transport._links[0].connection.wire  # type: ignore[union-attr]
        wire.listen(0.1)
        await asyncio.sleep(0.1)
        time.sleep(1.0)  # noqa: ASYNC251  that is the point
        await asyncio.sleep(0.05)
        assert not wire.lost.done()


async def test_a_first_connection_waits_for_a_broker_that_is_starting(proxy: Proxy, namespace: str) -> None:
    await proxy.refuse()
    transport = RabbitTransport(proxy.url, namespace=namespace)
    opening = asyncio.create_task(transport.open())
    await asyncio.sleep(0.3)
    await proxy.accept()
    await opening
    await transport.close()


async def test_a_cancelled_opening_leaves_nothing_and_may_be_tried_again(proxy: Proxy, namespace: str) -> None:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    proxy.freeze()
    first, second = asyncio.create_task(transport.open()), asyncio.create_task(transport.open())
    await asyncio.sleep(0.1)
    first.cancel()
    await asyncio.wait({first})
    await asyncio.sleep(0.05)
    assert "open the transport" in tasks()  # the other still waits for it
    second.cancel()
    await asyncio.wait({second})
    await eventually(lambda: tasks() == set())
    proxy.thaw()
    await asyncio.sleep(0.2)
    assert tasks() == set()
    for opening in (first, second):
        assert opening.cancelled()
    async with opened(transport):
        await send_to_nobody(transport)


async def test_an_opening_that_is_cancelled_in_its_last_moment_leaves_nothing(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    opening = asyncio.create_task(transport.open())
    await asyncio.sleep(0)
    assert transport._opening is not None
    transport._opening.add_done_callback(lambda _: opening.cancel())
    await asyncio.wait({opening})
    assert opening.cancelled()
    await eventually(lambda: tasks() == set())
    async with opened(transport):
        await send_to_nobody(transport)


async def test_closing_while_a_cancelled_opening_tidies_up_leaves_nothing(proxy: Proxy, namespace: str) -> None:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    opening = asyncio.create_task(transport.open())
    await eventually(lambda: bool(transport._links) and transport._links[0].connection is not None)
    proxy.freeze()
    opening.cancel()
    await asyncio.wait({opening})
    await asyncio.sleep(0.05)
    assert tasks() != set()
    await transport.close()
    await eventually(lambda: tasks() == set())
    proxy.thaw()
    await eventually(lambda: proxy.open_connections == 0)


async def test_an_opening_is_ended_by_closing_and_says_so(proxy: Proxy, namespace: str) -> None:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    proxy.freeze()
    opening = asyncio.create_task(transport.open())
    await asyncio.sleep(0.1)
    await transport.close()
    with pytest.raises(TransportClosedError):
        await opening
    assert tasks() == set()


async def test_a_defect_while_a_channel_is_renewed_costs_the_connection_and_not_the_transport(
    amqp_url: str, namespace: str
) -> None:
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        link = transport._links[0]
        real, before, times = link._set_up, link.connection, 0

        async def defective(connection: Connection) -> None:
            nonlocal times
            times += 1
            if times < 3:
                raise RuntimeError("a word of aiormq's")
            await real(connection)

        link._set_up = defective
        with structlog.testing.capture_logs() as logged:
            link.renew()
            await eventually(lambda: times == 3 and link.connection not in (None, before))
        told = [entry["event"] for entry in logged]
        assert told == ["bus.connecting_fails", "bus.connection_lost"]
        await send_to_nobody(transport)


async def test_closing_a_connection_may_be_cancelled(proxy: Proxy) -> None:
    connection = await Connection.open(Address.parse(proxy.url), name="test", heartbeat=4, seconds=5)
    proxy.freeze()
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    await eventually(connection.wire.lost.done)
    assert connection.wire.lost.result() == "it was closed"
    await eventually(lambda: tasks() == set())


async def test_cancelling_a_close_leaves_the_loss_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.connection._CLOSE_TIMEOUT", 0.01)

    class Slow:
        async def close(self) -> None:
            await asyncio.Event().wait()

    wire = Wire(asyncio.get_running_loop())
    closing = asyncio.create_task(Connection(Slow(), wire).close())  # type: ignore[arg-type]
    await asyncio.sleep(0.1)
    closing.cancel()
    await asyncio.wait({closing})
    wire.connection_lost(None)
    assert await wire.lost == "it was closed"


async def test_cancelling_who_waits_for_an_answer_leaves_the_channel_as_it_is(amqp_url: str) -> None:
    """By itself aiormq closes a channel whose request is cancelled."""
    connection = await Connection.open(Address.parse(amqp_url), name="test", heartbeat=4, seconds=5)
    channel = await connection.channel()
    for turns in range(1, 10):
        asking = asyncio.create_task(connection.ask(channel.basic_qos(prefetch_count=turns)))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        await connection.ask(channel.basic_qos(prefetch_count=turns))
    assert not channel.is_closed
    await connection.close()
    assert tasks() == set()


async def test_closing_during_an_outage_is_quick_and_complete(proxy: Proxy, namespace: str) -> None:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    await transport.open()
    subscription = await transport.subscribe(calls(transport), Inbox(), prefetch=1)
    await proxy.refuse()
    await proxy.cut()
    await eventually(lambda: all(link.connection is None for link in transport._links))
    waiting = asyncio.create_task(send(transport, b"x"))
    await asyncio.sleep(0)
    began = time.monotonic()
    await transport.close()
    assert time.monotonic() - began < 2
    with pytest.raises(TransportClosedError):
        await waiting
    await subscription.stop()
    await subscription.close()
    assert tasks() == set()


async def test_closing_over_a_frozen_connection_is_bounded(proxy: Proxy, namespace: str) -> None:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    await transport.open()
    await transport.subscribe(calls(transport), Inbox(), prefetch=1)
    await send(transport, b"first")
    proxy.freeze()
    unconfirmed = asyncio.create_task(send(transport, b"x"))
    elsewhere = [asyncio.create_task(send(transport, b"x", provider_id=each)) for each in ("notes", "mail")]
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await transport.close()
    assert time.monotonic() - began < 12
    with pytest.raises(PublishUnsureError):
        await unconfirmed
    outcomes = await asyncio.gather(*elsewhere, return_exceptions=True)
    # The first publish to each route goes over a channel of its own: one was there, and one could not be opened.
    assert [type(outcome) for outcome in outcomes] == [PublishUnsureError, TransportClosedError]
    assert tasks() == set()


# --- the broker itself ------------------------------------------------------------------------------------------------


async def test_a_killed_broker_comes_back_with_everything(own_broker: Broker, namespace: str) -> None:
    inbox, mail, renewed = Inbox(ack=True), Inbox(ack=True), []
    async with opened(RabbitTransport(own_broker.url, namespace=namespace)) as transport:
        mailbox = transport.topology.mailbox("ada")
        await transport.subscribe(calls(transport), inbox, prefetch=10, renewed=lambda: renewed.append("calls"))
        await transport.subscribe(mailbox, mail, prefetch=10, renewed=lambda: renewed.append("mailbox"))
        # 3.10 never revives a quorum queue that is declared within the last second or so before SIGKILL.
        await asyncio.sleep(2)
        await own_broker.restart()
        await send(transport, b"call")
        await transport.publish(transport.topology.reply_route("ada"), Message(b"reply", "reply"), deadline=in_time())
        await eventually(lambda: inbox.bodies == [b"call"] and mail.bodies == [b"reply"], within=20)
        assert renewed == []


async def test_a_memory_alarm_stops_publishing_and_nothing_else(own_broker: Broker, namespace: str) -> None:
    budget = 1024 * 1024
    transport = RabbitTransport(own_broker.url, namespace=namespace, byte_budget=budget)
    async with opened(transport):
        inbox = Inbox()
        subscription = await transport.subscribe(calls(transport), inbox, prefetch=5)
        await send(transport, *(b"%d" % number for number in range(10)))
        await inbox.holds(5)
        await own_broker.raise_memory_alarm()
        publisher = transport._publisher
        assert publisher is not None
        body = b"x" * 100_000
        publishes = [asyncio.create_task(send(transport, body)) for _ in range(200)]
        with pytest.raises((PublishRefusedError, PublishUnsureError)):
            await transport.publish(
                transport.topology.call_route(PROVIDER, "main"), Message(b"late", "call"), deadline=time.time() + 1
            )
        assert publisher.unconfirmed_bytes <= budget
        # Meanwhile deliveries arrive, settle and are given back.
        for delivery in inbox.deliveries[:]:
            delivery.ack()
        await eventually(lambda: len(inbox) == 10)
        async with asyncio.timeout(5):
            await subscription.close()
        assert not any(publish.done() for publish in publishes)
        await own_broker.lift_memory_alarm()
        await asyncio.gather(*publishes)


async def test_closing_under_an_alarm_is_bounded(own_broker: Broker, namespace: str) -> None:
    async with opened(RabbitTransport(own_broker.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), Inbox(), prefetch=5)
        await own_broker.raise_memory_alarm()
        unconfirmed = asyncio.create_task(send(transport, b"x"))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(8):
            await transport.close()
        with pytest.raises(PublishUnsureError):
            await unconfirmed


# --- consumers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [NO_TEXT, NO_TIME, NO_TIME_IN_TABLE])
async def test_a_stream_is_read_past_what_cannot_be_read(
    amqp_url: str, namespace: str, properties: tuple[int, bytes]
) -> None:
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        stream = transport.topology.manifests
        await transport.read(stream)  # which declares it
        for body in (b"rubbish", b"at the end"):
            await transport.publish(stream.route, Message(b"{}", "manifest"), deadline=in_time())
            await publish_as_stranger(transport, stream.route, body, properties)
        bodies = await transport.read(stream)
        assert bodies[-4:] == [b"{}", b"rubbish", b"{}", b"at the end"]


async def test_a_queue_that_was_deleted_is_made_anew_and_says_so(amqp_url: str, namespace: str) -> None:
    inbox, renewed = Inbox(ack=True), []
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        mailbox = transport.topology.mailbox("ada")
        await transport.subscribe(mailbox, inbox, prefetch=10, renewed=lambda: renewed.append(1))
        async with channel_of(amqp_url) as channel:
            await channel.queue_delete(mailbox.name)
        await eventually(lambda: renewed == [1])
        await transport.publish(transport.topology.reply_route("ada"), Message(b"x", "reply"), deadline=in_time())
        await eventually(lambda: inbox.bodies == [b"x"])


async def test_a_queue_that_expired_during_an_outage_is_made_anew_and_says_so(
    amqp_url: str, proxy: Proxy, namespace: str
) -> None:
    inbox, renewed = Inbox(ack=True), []
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        mailbox = transport.topology.mailbox("ada")
        await transport.subscribe(mailbox, inbox, prefetch=10, renewed=lambda: renewed.append(1))
        await proxy.refuse()
        await proxy.cut()
        async with channel_of(amqp_url) as channel:
            await channel.queue_delete(mailbox.name)
        await proxy.accept()
        await eventually(lambda: renewed == [1])
        await attached(transport)
        await proxy.cut()
        await eventually(lambda: transport._links[1].connection is None)
        await attached(transport)
        assert renewed == [1]


async def test_a_queue_that_was_made_anew_only_in_part_is_completed_and_says_so_once(
    amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends between the declaration and the binding."""
    declares = 0

    async def declare_in_part(connection: Connection, queue: Queue) -> None:
        nonlocal declares
        declares += 1
        if declares > 1:
            await declare_queue(connection, queue)
            return
        async with channel_of(amqp_url) as channel:
            await channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
        connection.wire.abort("cut between declaring and binding")
        await connection.wire.lost
        raise ConnectionResetError("cut")

    inbox, renewed = Inbox(ack=True), []
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        mailbox = transport.topology.mailbox("ada")
        await transport.subscribe(mailbox, inbox, prefetch=10, renewed=lambda: renewed.append(1))
        monkeypatch.setattr(kept_queue, "declare_queue", declare_in_part)
        async with channel_of(amqp_url) as channel:
            await channel.queue_delete(mailbox.name)
        await eventually(lambda: declares > 0)
        await attached(transport)
        await eventually(lambda: renewed == [1])
        await transport.publish(transport.topology.reply_route("ada"), Message(b"x", "reply"), deadline=in_time())
        await eventually(lambda: inbox.bodies == [b"x"])
        assert renewed == [1]


async def test_a_queue_that_lost_its_binding_meanwhile_is_bound_again(
    amqp_url: str, proxy: Proxy, namespace: str
) -> None:
    """Another consumer made it anew and died before it came to the binding."""
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(proxy.url, namespace=namespace)) as transport:
        queue = calls(transport)
        await transport.subscribe(queue, inbox, prefetch=1)
        async with channel_of(amqp_url) as channel:
            await channel.queue_unbind(queue.name, queue.bindings[0].exchange.name, queue.bindings[0].routing_key)
        await proxy.cut()
        await eventually(lambda: transport._links[1].connection is None)
        await attached(transport)
        await send(transport, b"x")
        await eventually(lambda: inbox.bodies == [b"x"])


async def test_what_arrives_while_a_consumer_s_channel_closes_reaches_nobody() -> None:
    wire = Wire(asyncio.get_running_loop())
    socket = Socket(wire)
    inbox = Inbox()
    consumer = Consumer(Connection(Any, wire), inbox, asyncio.Event(), prefetch=1, arguments=None)  # type: ignore[arg-type]
    consumer.delivered(1, Message(b"x", "call"), redelivered=False, lost=0)
    assert (len(inbox), socket.written) == (0, b"")
    consumer.live = True
    consumer.delivered(2, Message(b"x", "call"), redelivered=False, lost=0)
    assert inbox.bodies == [b"x"]


async def test_what_a_cancelled_consumer_left_in_hand_can_still_be_settled(amqp_url: str, namespace: str) -> None:
    inbox = Inbox()
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        queue = calls(transport)
        await transport.subscribe(queue, inbox, prefetch=1)
        subscription = next(iter(transport._subscriptions))
        consumer = subscription._consumer
        assert consumer is not None
        (first_tag,) = consumer.tags
        await send(transport, b"1", b"2")
        await inbox.holds(1)
        # What the broker does then, as far as this side sees: a cancel frame for the consumer, on a live channel.
        assert consumer.channel is not None
        await consumer.connection.ask(consumer.channel.basic_cancel(first_tag))
        consumer.cancelled(first_tag)
        await eventually(lambda: len(inbox) == 2)
        assert subscription._consumer is not consumer, "the one before lives for what is in hand"
        inbox.deliveries[0].ack()
        await eventually(lambda: not consumer.live)
        inbox.deliveries[1].ack()
        await asyncio.sleep(0.2)
        assert inbox.bodies == [b"1", b"2"]
        assert await left(amqp_url, queue) == 0


async def test_after_a_pause_too_a_consumer_that_the_broker_cancels_is_replaced(
    amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.subscription._WATCH", 0.05)
    inbox = Inbox()
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        subscription = await transport.subscribe(calls(transport), inbox, prefetch=3)
        consumer = next(iter(transport._subscriptions))._consumer
        assert consumer is not None
        await send(transport, *(b"%d" % number for number in range(9)))
        await inbox.holds(3)
        await subscription.pause()
        inbox.deliveries[0].ack()
        subscription.resume()
        await inbox.holds(4)
        inbox.deliveries[1].ack()
        await inbox.holds(5)
        assert len(consumer.tags) == 2
        assert consumer.channel is not None
        await consumer.connection.ask(consumer.channel.basic_cancel(consumer.tags[0]))
        consumer.cancelled(consumer.tags[0])  # and what is in hand may be handed out again: all three places are free
        await inbox.holds(8)
        assert not consumer.tags
        for delivery in inbox.deliveries:
            delivery.ack()
        await inbox.holds(9)


async def test_a_pause_that_the_broker_does_not_answer_gives_back_what_is_in_hand(
    proxy: Proxy, amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.connection.ANSWER_TIMEOUT", 0.3)
    inbox, other = Inbox(), Inbox(ack=True)
    async with (
        opened(RabbitTransport(proxy.url, namespace=namespace)) as transport,
        opened(RabbitTransport(amqp_url, namespace=namespace)) as peer,
    ):
        subscription = await transport.subscribe(calls(transport), inbox, prefetch=3)
        await send(transport, b"1")
        await inbox.holds(1)
        proxy.freeze()
        await subscription.pause()
        proxy.thaw()
        await peer.subscribe(calls(peer), other, prefetch=3)
        assert await other.holds(1) == [b"1"]
        inbox.deliveries[0].ack()
        await send(peer, b"2")
        assert await other.holds(2) == [b"1", b"2"]


async def test_a_channel_that_the_broker_closes_is_replaced(amqp_url: str, namespace: str) -> None:
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        consumer = next(iter(transport._subscriptions))._consumer
        assert consumer is not None
        consumer.wire.send(frames.ack(consumer.number, 999))  # an unknown tag is an error of the channel
        await send(transport, b"x")
        await eventually(lambda: inbox.bodies == [b"x"])
        assert next(iter(transport._subscriptions))._consumer is not consumer


async def test_the_watch_finds_a_consumer_that_vanished_unnoticed(
    amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.subscription._WATCH", 0.05)
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        consumer = next(iter(transport._subscriptions))._consumer
        assert consumer is not None
        assert consumer.channel is not None
        await consumer.connection.ask(consumer.channel.basic_cancel(*consumer.tags))
        await send(transport, b"x")
        await eventually(lambda: inbox.bodies == [b"x"])


async def test_a_receiver_that_raises_harms_nobody(amqp_url: str, namespace: str) -> None:
    inbox = Inbox(ack=True)

    def receive(delivery: object) -> None:
        inbox(delivery)  # type: ignore[arg-type]
        raise ValueError("a defect of the receiver")

    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), receive, prefetch=1)
        with structlog.testing.capture_logs() as logged:
            await send(transport, b"1", b"2")
            await eventually(lambda: inbox.bodies == [b"1", b"2"])
    assert [entry["event"] for entry in logged] == ["bus.receive_failed"] * 2


# --- addresses --------------------------------------------------------------------------------------------------------

PASSWORD = "p@ss/w:o#r%d"


async def refusal(address: Address | str, connect_timeout: float = 5.0) -> str:
    """Return what is said when this address cannot be opened; it is said at once and shows no password."""
    began = time.monotonic()
    transport = RabbitTransport(address, connect_timeout=connect_timeout)
    with pytest.raises(BusUnreachableError) as raised:
        await transport.open()
    await transport.close()
    assert time.monotonic() - began < 5
    assert tasks() == set()
    told = f"{raised.value} {raised.value!r} {transport!r} {transport.address!r}"
    for secret in ("p@ss", "p%40ss", ":guest@"):
        assert secret not in told
    return str(raised.value)


async def test_any_character_may_be_in_user_password_and_vhost(own_broker: Broker, namespace: str) -> None:
    port = urlsplit(own_broker.url).port
    await own_broker.ctl("add_vhost", "a/b@c")
    await own_broker.ctl("add_user", "me@home", PASSWORD)
    await own_broker.ctl("set_permissions", "-p", "a/b@c", "me@home", ".*", ".*", ".*")
    for address in (
        Address("127.0.0.1", port, "me@home", PASSWORD, "a/b@c"),
        f"amqp://me%40home:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/a%2Fb%40c",
    ):
        async with opened(RabbitTransport(address, namespace=namespace)) as transport:
            assert str(transport.address) == f"amqp://me%40home@127.0.0.1:{port}/a%2Fb%40c"
            assert PASSWORD not in repr(transport) + repr(transport.address)


async def test_wrong_credentials_and_vhosts_fail_at_once_in_one_sentence(amqp_url: str) -> None:
    host, port = urlsplit(amqp_url).hostname, urlsplit(amqp_url).port
    assert host is not None
    assert "refuses the login" in await refusal(Address(host, port, password=PASSWORD))
    assert "refuses the vhost" in await refusal(Address(host, port, vhost="nowhere"))
    assert "is not known" in await refusal(Address("nobody.invalid", port, password=PASSWORD))


async def test_nothing_listening_is_said_after_the_connect_timeout(proxy: Proxy) -> None:
    await proxy.refuse()
    assert "Nothing listens" in await refusal(Address("localhost", proxy.port, password=PASSWORD), 0.5)


async def test_a_silent_port_is_said_after_the_connect_timeout(proxy: Proxy) -> None:
    proxy.freeze()
    assert "did not answer within 0.5 s" in await refusal(Address("localhost", proxy.port, password=PASSWORD), 0.5)


async def test_what_speaks_no_amqp_is_said(proxy: Proxy) -> None:
    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "no AMQP broker" in await refusal(Address("127.0.0.1", port), 0.5)
    server.close()


async def test_tls_is_verified_unless_told_otherwise(amqp_url: str, namespace: str, tmp_path: Path) -> None:
    authority, server = make_certificates(tmp_path)
    async with proxy_to(amqp_url, context=server) as proxy:
        plain = Address.parse(proxy.url)
        assert plain.tls
        assert "is not trusted" in await refusal(plain)
        for trusting in (replace(plain, ca_file=str(authority)), replace(plain, verify=False)):
            async with opened(RabbitTransport(trusting, namespace=namespace)) as transport:
                assert await transport.read(transport.topology.manifests)
        assert "is not trusted" in await refusal(replace(plain, ca_file=str(authority), host="127.0.0.1"))
        assert "does it want amqps" in await refusal(replace(plain, tls=False), 0.5)


async def test_tls_to_a_plain_port_is_said(amqp_url: str) -> None:
    address = Address.parse(amqp_url)
    assert "is this the broker's TLS port" in await refusal(replace(address, tls=True))


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_publish_that_closes_the_channel_is_refused_and_the_next_goes_through(
    amqp_url: str, namespace: str
) -> None:
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        for _ in range(3):
            with pytest.raises(UnroutableError, match="no exchange"):
                await transport.publish(Route(f"{namespace}.nowhere", "x"), Message(b"x", "call"), deadline=in_time())
            await send(transport, b"next")
        await eventually(lambda: len(inbox) == 3)


async def test_a_full_queue_refuses(amqp_url: str, namespace: str) -> None:
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        plain = calls(transport)
        arguments = {"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"}
        queue = replace(plain, arguments=arguments)
        await (await transport.subscribe(queue, Inbox(), prefetch=1)).close()
        await send(transport, b"1")
        with pytest.raises(PublishRefusedError, match="a queue is full"):
            await send(transport, b"2")


async def test_an_exchange_of_another_kind_is_a_mismatch_at_opening(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    async with channel_of(amqp_url) as channel:
        await channel.exchange_declare(transport.topology.replies.name, exchange_type="direct", durable=True)
    with pytest.raises(TopologyMismatchError, match=r"type = 'direct', and this version declares 'topic'"):
        await transport.open()
    assert tasks() == set()
    async with channel_of(amqp_url) as channel:
        await channel.exchange_delete(transport.topology.replies.name)
    await transport.open()  # another try is allowed
    await transport.close()


async def test_who_may_not_declare_relies_on_others_and_hears_what_is_refused(
    own_broker: Broker, namespace: str
) -> None:
    parts = Address.parse(own_broker.url)
    restricted = replace(parts, user=namespace, password=PASSWORD)
    await own_broker.ctl("add_user", restricted.user, PASSWORD)
    await own_broker.ctl("set_permissions", restricted.user, "^$", ".*", ".*")
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(parts, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=1)
        async with opened(RabbitTransport(restricted, namespace=namespace)) as guest:
            await send(guest, b"x")
            await eventually(lambda: inbox.bodies == [b"x"])
            with pytest.raises(BusUnreachableError, match="does not let this user declare"):
                await guest.subscribe(guest.topology.mailbox("ada"), Inbox(), prefetch=1)
        await own_broker.ctl("set_permissions", restricted.user, "^$", "^$", ".*")
        async with opened(RabbitTransport(restricted, namespace=namespace)) as guest:
            with pytest.raises(PublishForbiddenError, match="ACCESS_REFUSED"):
                await send(guest, b"y")


async def test_a_forbidden_publish_costs_its_neighbours_nothing(own_broker: Broker, namespace: str) -> None:
    parts = Address.parse(own_broker.url)
    restricted = replace(parts, user=namespace, password=PASSWORD)
    await own_broker.ctl("add_user", restricted.user, PASSWORD)
    await own_broker.ctl("set_permissions", restricted.user, ".*", ".*", ".*")
    inbox, secret = Inbox(ack=True), Inbox(ack=True)
    async with opened(RabbitTransport(parts, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=100)
        await transport.subscribe(transport.topology.call_queue("admin", "main"), secret, prefetch=100)
        exchange = transport.topology.calls.name
        await own_broker.ctl("set_topic_permissions", restricted.user, exchange, rf"^{PROVIDER}\..*", ".*")
        async with opened(RabbitTransport(restricted, namespace=namespace)) as guest:
            for _ in range(3):
                providers = [PROVIDER] * 30 + ["admin"] * 3 + [PROVIDER] * 30
                sent = (send(guest, b"x", provider_id=provider) for provider in providers)
                outcomes = await asyncio.gather(*sent, return_exceptions=True)
                told = [type(outcome) for outcome in outcomes]
                assert told == [type(None)] * 30 + [PublishForbiddenError] * 3 + [type(None)] * 30
                assert "key 'admin.main'" in str(outcomes[30])
        await eventually(lambda: len(inbox) == 180)
        assert secret.bodies == []


async def test_a_permission_that_is_revoked_is_noticed_by_the_publishes_of_that_route(
    own_broker: Broker, namespace: str
) -> None:
    """On an open channel the broker goes on by what it looked up."""
    parts = Address.parse(own_broker.url)
    restricted = replace(parts, user=namespace, password=PASSWORD)
    await own_broker.ctl("add_user", restricted.user, PASSWORD)
    await own_broker.ctl("set_permissions", restricted.user, ".*", ".*", ".*")
    async with opened(RabbitTransport(parts, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), Inbox(ack=True), prefetch=100)
        async with (
            proxy_to(own_broker.url) as proxy,
            opened(RabbitTransport(replace(restricted, port=proxy.port), namespace=namespace)) as guest,
        ):
            await send(guest, b"1", b"2")
            await own_broker.ctl("set_topic_permissions", restricted.user, transport.topology.calls.name, "^$", "")
            await proxy.cut()
            await eventually(lambda: guest._links[0].connection is None)
            for _ in range(2):
                with pytest.raises(PublishForbiddenError, match="ACCESS_REFUSED"):
                    await send(guest, b"3")


async def test_a_message_over_the_broker_s_limit_is_refused_for_good(broker: Broker, namespace: str) -> None:
    size = (128 if broker.version.startswith("3.") else 16) * 1024 * 1024 + 1
    async with opened(RabbitTransport(broker.url, namespace=namespace)) as transport:
        await transport.subscribe(calls(transport), Inbox(ack=True), prefetch=1)
        for _ in range(2):
            with pytest.raises(PublishForbiddenError, match="larger than configured"):
                await send(transport, b"x" * size)
            await send(transport, b"small")


async def test_subscribing_during_an_outage_ends_within_the_connect_timeout(proxy: Proxy, namespace: str) -> None:
    async with opened(RabbitTransport(proxy.url, namespace=namespace, connect_timeout=0.5)) as transport:
        await proxy.refuse()
        await proxy.cut()
        await eventually(lambda: all(link.connection is None for link in transport._links))
        with pytest.raises(BusUnreachableError):
            await transport.subscribe(calls(transport), Inbox(), prefetch=1)
        with pytest.raises(BusUnreachableError):
            await transport.read(transport.topology.manifests)
        assert transport._subscriptions == set()


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_a_stream_that_somebody_left_empty_is_read(amqp_url: str, namespace: str) -> None:
    """Who declares it may die before writing the first entry, and an empty stream delivers nothing."""
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        stream = transport.topology.manifests
        async with channel_of(amqp_url) as channel:
            await channel.queue_declare(stream.name, durable=True, arguments=dict(stream.arguments))
        assert await transport.read(stream) == [b"{}"]


async def test_many_that_meet_a_fresh_stream_all_read_it_and_lose_no_connection(amqp_url: str, namespace: str) -> None:
    """Before 4.0 the broker closes whole connections over a stream that is just being declared."""
    async with (
        opened(RabbitTransport(amqp_url, namespace=namespace)) as first,
        opened(RabbitTransport(amqp_url, namespace=namespace)) as second,
    ):
        connections = [link.connection for each in (first, second) for link in each._links]
        readings = await asyncio.gather(*(each.read(each.topology.manifests) for each in (first, second) * 4))
        assert all(reading and set(reading) == {b"{}"} for reading in readings)
        assert [link.connection for each in (first, second) for link in each._links] == connections


async def test_entries_that_were_written_together_are_read_together(amqp_url: str, namespace: str) -> None:
    """They share a chunk, and a reader that asks for the last entry is given the first of the last chunk."""
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        route = transport.topology.manifests.route
        expected = await transport.read(transport.topology.manifests)
        for turn in range(10):
            entries = [b"%d.%d" % (turn, number) for number in range(turn * 30 + 2)]
            publishes = (transport.publish(route, Message(entry, "m"), deadline=in_time()) for entry in entries)
            await asyncio.gather(*publishes)
            expected += entries
            assert await transport.read(transport.topology.manifests) == expected


# --- nothing is left --------------------------------------------------------------------------------------------------


async def test_opening_and_closing_fifty_times_leaves_nothing(amqp_url: str, namespace: str) -> None:
    gc_objects: Callable[[], list[object]] = gc.get_objects

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a count of names

    async def once() -> None:
        async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
            await transport.subscribe(calls(transport), Inbox(ack=True), prefetch=5)
            await send(transport, b"x")

    await once()
    gc.collect()
    before, alive = descriptors(), len(gc_objects())
    for _ in range(50):
        await once()
    gc.collect()
    assert tasks() == set()
    assert descriptors() <= before
    assert len(gc_objects()) - alive < 2000


async def test_a_mailbox_expires_with_its_replies_when_nobody_reads_it_any_more(amqp_url: str, namespace: str) -> None:
    """300 times as fast as it does."""
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        mailbox = transport.topology.mailbox("ada")
        arguments = {**mailbox.arguments, "x-expires": mailbox.arguments["x-expires"] // 300}
        kept = replace(mailbox, arguments=arguments, passing=False)  # as where its reader was killed
        await (await transport.subscribe(kept, Inbox(), prefetch=1)).close()
        route = transport.topology.reply_route("ada")
        await transport.publish(route, Message(b"x", "reply"), deadline=in_time())
        await asyncio.sleep(arguments["x-expires"] / 1000 + 1.5)
        with pytest.raises(UnroutableError):
            await transport.publish(route, Message(b"x", "reply"), deadline=in_time())


async def test_no_use_of_a_transport_leaves_a_channel_open(amqp_url: str, namespace: str) -> None:
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:

        async def use_it() -> int:
            for number in range(20):
                await (await transport.subscribe(calls(transport), Inbox(ack=True), prefetch=1)).close()
                await send(transport, b"x")
                await transport.read(transport.topology.manifests)
                with pytest.raises(UnroutableError):
                    await send(transport, b"x", provider_id=f"{letter}{number}")
            connections = [link.connection for link in transport._links]
            return sum(len(each._pika.amqp.channels) for each in connections if each is not None)

        letter = "a"
        before = await use_it()
        letter = "b"
        assert await use_it() == before


@pytest.mark.parametrize("seed", range(5))
async def test_cancelled_publishes_leave_nothing_whatever_happens_beside(
    proxy: Proxy, namespace: str, seed: int
) -> None:
    chance = random.Random(seed)
    inbox = Inbox(ack=True)
    async with opened(RabbitTransport(proxy.url, namespace=namespace, byte_budget=200_000)) as transport:
        await transport.subscribe(calls(transport), inbox, prefetch=100)
        publishes = []
        for number in range(300):
            publish = asyncio.create_task(send(transport, b"%d." % number + b"x" * chance.randrange(60_000)))
            publishes.append(publish)
            if chance.random() < 0.4:
                asyncio.get_running_loop().call_later(chance.random() * 0.05, publish.cancel)
            if chance.random() < 0.01:
                await proxy.cut()
            if chance.random() < 0.1:
                await asyncio.sleep(0.005)
        outcomes = await asyncio.gather(*publishes, return_exceptions=True)
        assert all(
            outcome is None or isinstance(outcome, asyncio.CancelledError | PublishUnsureError) for outcome in outcomes
        )
        confirmed = {number for number, outcome in enumerate(outcomes) if outcome is None}
        await eventually(lambda: confirmed <= {int(body.partition(b".")[0]) for body in inbox.bodies})
        publisher = transport._publisher
        assert publisher is not None
        await eventually(lambda: not publisher.outstanding and not publisher.unconfirmed_bytes)


async def test_cancelled_subscribing_and_stopping_leave_nothing(amqp_url: str, namespace: str) -> None:
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:

        async def cancelled_after(turns: int, awaited: Coroutine[Any, Any, Any]) -> Any:
            task = asyncio.ensure_future(awaited)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            return (await asyncio.gather(task, return_exceptions=True))[0]

        for turns in range(0, 60, 3):
            done = await cancelled_after(turns, transport.subscribe(calls(transport), Inbox(), prefetch=1))
            if not isinstance(done, asyncio.CancelledError):
                await done.close()
            await cancelled_after(turns, transport.read(transport.topology.manifests))
            subscription = await transport.subscribe(calls(transport), Inbox(), prefetch=1)
            await cancelled_after(turns, subscription.stop())
            await cancelled_after(turns, subscription.close())
            await subscription.close()
        await eventually(lambda: transport._subscriptions == set())
        async with channel_of(amqp_url) as channel:
            declared = await channel.queue_declare(calls(transport).name, passive=True)
            assert declared.consumer_count == 0


async def test_a_connection_that_could_not_be_opened_leaves_nothing_to_the_garbage_collector() -> None:
    (port,) = free_ports(1)
    with pytest.raises(BusUnreachableError):
        await RabbitTransport(f"amqp://127.0.0.1:{port}/", connect_timeout=0.2).open()
    gc.collect()
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_bindings_that_were_lost_with_an_exchange_are_made_again(
    amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes an exchange, and somebody else declares it: nothing tells those whose queues were bound."""
    monkeypatch.setattr(kept_queue, "BIND_AGAIN", 0.0)
    monkeypatch.setattr(subscription, "_WATCH", 0.05)
    async with opened(RabbitTransport(amqp_url, namespace=namespace)) as transport:
        inbox = Inbox(ack=True)
        await transport.subscribe(transport.topology.control_queue("w"), inbox, prefetch=10)
        async with channel_of(amqp_url) as channel:
            await channel.exchange_delete(transport.topology.control.name)
        async with opened(RabbitTransport(amqp_url, namespace=namespace)) as other:
            route = other.topology.control_route("ping")
            async with asyncio.timeout(20):
                while True:
                    with suppress(UnroutableError):
                        await other.publish(route, Message(b"heard", "ping"), deadline=in_time())
                        break
                    await asyncio.sleep(0.05)
        assert await inbox.holds(1) == [b"heard"]
