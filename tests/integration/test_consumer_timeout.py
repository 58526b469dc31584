"""What RabbitMQ does to a consumer that settles too late, and that the subscription is none the worse for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiormq
import pytest

from grundlag_bus.transport.rabbitmq import RabbitTransport
from grundlag_bus.transport.rabbitmq.consumer import Consumer
from grundlag_bus.transport.topology import Queue
from tests.support.broker import Broker
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import open_host
from tests.support.transports import Inbox, send

SECONDS = 1.5


@pytest.fixture
async def transport(broker: Broker, namespace: str) -> AsyncIterator[RabbitTransport]:
    transport = RabbitTransport(broker.url, namespace=namespace)
    await transport.open()
    yield transport
    await transport.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"


def calls(transport: RabbitTransport) -> Queue:
    return transport.topology.call_queue("calendar", "main")


def consumer_of(transport: RabbitTransport) -> Consumer:
    (subscription,) = transport._subscriptions
    assert subscription._consumer is not None
    return subscription._consumer


def retired_by(transport: RabbitTransport) -> int:
    (subscription,) = transport._subscriptions
    return len(subscription._retired)


async def consumers_of(url: str, queue: Queue) -> int | None:
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        return (await channel.queue_declare(queue.name, passive=True)).consumer_count
    finally:
        await connection.close()


def setting(*, timeout: int, tick: int, response: str) -> str:
    """Say to the broker itself how long it leaves deliveries with consumers, in milliseconds, and what it does then."""
    values = {"consumer_timeout": timeout, "channel_tick_interval": tick, "consumer_timeout_response": response}
    return " ".join(f"application:set_env(rabbit, {name}, {value})," for name, value in values.items()) + " ok."


def taken(inbox: Inbox, *, start: int) -> int:
    """Count what was delivered from there on."""
    return len(inbox.deliveries) - start


async def test_the_connection_stays_and_a_fresh_consumer_takes_over_at_once(transport: RabbitTransport) -> None:
    if not transport.broker.honours_consumer_timeout:
        return  # its own time-out is tested below
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=3, consumer_timeout=SECONDS)
    connections = [link.connection for link in transport._links]
    before = consumer_of(transport)
    begun = time.monotonic()
    await send(transport, b"slow")
    await eventually(lambda: len(inbox) == 2)
    assert SECONDS <= time.monotonic() - begun < SECONDS + 5, "the broker looks at once, and not once a minute"
    assert consumer_of(transport) is not before
    assert [link.connection for link in transport._links] == connections
    assert transport.state.connected


async def test_what_else_is_in_hand_can_still_be_settled(transport: RabbitTransport, broker: Broker) -> None:
    if not transport.broker.honours_consumer_timeout:
        return
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=3, consumer_timeout=SECONDS)
    await send(transport, b"slow")
    await asyncio.sleep(SECONDS * 0.7)
    await send(transport, b"later")
    await eventually(lambda: inbox.bodies == [b"slow", b"later", b"slow"])
    inbox.deliveries[1].ack()
    inbox.deliveries[2].ack()
    await asyncio.sleep(SECONDS * 1.5)
    assert inbox.bodies == [b"slow", b"later", b"slow"], "it was settled over the channel of the consumer before"
    inbox.deliveries[0].ack()
    await eventually(lambda: not retired_by(transport))
    assert await consumers_of(broker.url, calls(transport)) == 1


async def test_one_that_is_late_after_another_costs_the_fresh_consumer_nothing(transport: RabbitTransport) -> None:
    """The broker cancels the old tag once more for each."""
    if not transport.broker.honours_consumer_timeout:
        return
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=3, consumer_timeout=SECONDS)
    await send(transport, b"1")
    await asyncio.sleep(SECONDS * 0.7)
    await send(transport, b"2")
    await eventually(lambda: inbox.bodies[:3] == [b"1", b"2", b"1"])
    inbox.deliveries[2].ack()
    fresh = consumer_of(transport)
    await eventually(lambda: inbox.bodies == [b"1", b"2", b"1", b"2"])
    assert consumer_of(transport) is fresh
    inbox.deliveries[3].ack()


async def test_no_more_than_prefetch_is_taken_after_what_was_late_is_settled(
    transport: RabbitTransport, broker: Broker
) -> None:
    """Up to 4.3.6 the broker takes the consumer that it cancelled up again, beside the fresh one."""
    if not transport.broker.honours_consumer_timeout:
        return
    inbox = Inbox()
    await transport.subscribe(calls(transport), inbox, prefetch=2, consumer_timeout=SECONDS)
    await send(transport, b"1")
    await asyncio.sleep(SECONDS * 0.5)
    await send(transport, b"2")
    await eventually(lambda: inbox.bodies == [b"1", b"2", b"1"])
    inbox.deliveries[0].ack()  # all that was late is settled, and the other keeps the old channel
    inbox.deliveries[2].ack()
    start = len(inbox.deliveries)
    await send(transport, *(b"more %d" % number for number in range(8)))
    await eventually(lambda: taken(inbox, start=start) >= 2)
    await asyncio.sleep(SECONDS * 0.3)
    assert taken(inbox, start=start) == 2
    for number in range(8):
        await eventually(lambda wanted=number + 1: taken(inbox, start=start) >= wanted)  # type: ignore[misc]  # as above
        inbox.deliveries[start + number].ack()
    inbox.deliveries[1].ack()
    await eventually(lambda: not retired_by(transport))
    assert await consumers_of(broker.url, calls(transport)) == 1


async def test_closing_gives_back_what_an_older_consumer_has_in_hand(
    transport: RabbitTransport, broker: Broker, namespace: str
) -> None:
    inbox, other = Inbox(), Inbox(ack=True)
    subscription = await transport.subscribe(calls(transport), inbox, prefetch=2, consumer_timeout=SECONDS)
    await send(transport, b"1")
    if transport.broker.honours_consumer_timeout:
        await asyncio.sleep(SECONDS * 0.7)
        await send(transport, b"2")
        await eventually(lambda: inbox.bodies == [b"1", b"2", b"1"])
        assert retired_by(transport) == 1
    await subscription.close()
    peer = RabbitTransport(broker.url, namespace=namespace)
    await peer.open()
    try:
        await peer.subscribe(calls(peer), other, prefetch=2)
        await eventually(lambda: set(other.bodies) == set(inbox.bodies))
        if transport.broker.counts_only_losses:
            assert [delivery.lost for delivery in other.deliveries] == [0] * len(other)
    finally:
        await peer.close()


async def test_a_channel_that_is_closed_for_it_is_replaced_and_all_comes_again(
    own_broker: Broker, namespace: str
) -> None:
    """What a broker before 4.3 does by its own time-out, and a newer one that is told to."""
    await own_broker.ctl("eval", setting(timeout=1500, tick=300, response="close_channel"))
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    try:
        inbox = Inbox()
        await transport.subscribe(calls(transport), inbox, prefetch=5)
        connections = [link.connection for link in transport._links]
        await send(transport, b"1", b"2")
        await eventually(lambda: len(inbox) >= 4, within=20)
        assert sorted(inbox.bodies[:4]) == [b"1", b"1", b"2", b"2"]
        assert [delivery.redelivered for delivery in inbox.deliveries[:4]] == [False, False, True, True]
        for delivery in inbox.deliveries:
            delivery.ack()
        await send(transport, b"3")
        await eventually(lambda: inbox.bodies[-1] == b"3")
        inbox.deliveries[-1].ack()
        assert [link.connection for link in transport._links] == connections
    finally:
        await transport.close()
        await own_broker.ctl("eval", setting(timeout=1_800_000, tick=60_000, response="cancel"))


# --- through a worker -------------------------------------------------------------------------------------------------


async def test_a_worker_that_holds_a_call_for_too_long_is_not_deaf_and_runs_it_once(
    broker: Broker, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane's limit is before the time-out by right: here the time-out comes first."""
    monkeypatch.setattr("grundlag_bus.workers.lanes.AFTER_LIMIT", SECONDS - 60)
    seen.reset()
    async with open_host("rabbitmq", namespace, broker.url, serve=False) as host:
        running = await host.add_worker(concurrency=6, limits={"main": 60.0})
        host.tools = await host.bus.to_tools()
        assert isinstance(running.transport, RabbitTransport)
        connections = [link.connection for link in running.transport._links]
        slow = asyncio.create_task(host.execute("hold", {"name": "slow"}))
        await asyncio.sleep(SECONDS / 2)
        beside = [asyncio.create_task(host.execute("hold", {"name": "beside"})) for _ in range(4)]
        begun = time.monotonic()
        while time.monotonic() - begun < 2.5 * SECONDS:
            assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
            await asyncio.sleep(0.05)
        seen.gate("beside").set()
        await asyncio.gather(*beside)
        seen.gate("slow").set()
        await slow
        assert (seen.runs["hold slow"], seen.runs["hold beside"]) == (1, 4)
        assert host.bus_caller.late_replies == 0
        assert [link.connection for link in running.transport._links] == connections
        transport = running.transport
        await eventually(lambda: transport.state.consumers_actual == transport.state.consumers_wanted)
        await eventually(lambda: not running.worker.in_flight)
        topology = running.transport.topology
        await host.stop_workers()
        connection = await aiormq.connect(broker.url)
        channel = await connection.channel()
        left = await channel.queue_declare(topology.call_queue("contract", "main").name, passive=True)
        await connection.close()
        assert left.message_count == 0, "every delivery of them was settled"
    seen.reset()
