"""What the network does between a program and the broker: it kills connections, leaves them half-open, delays them.

Once to a transport, then to the caller and to the worker of calls, each of which ends once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiormq
import pytest

from grundlag_bus import Outcome, RabbitTransport, Transport, gather_outcomes
from grundlag_bus.transport import Message
from grundlag_bus.transport.topology import Queue
from tests.support.broker import Broker
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.in_flight import held, nothing_waits, told, transport_of
from tests.support.proxy import Proxy, proxy_to
from tests.support.transports import Inbox, send

HEALS_WITHIN = 10.0
BROKER_NOTICES_WITHIN = 20.0
"""Seconds until the broker gives up its end of a half-open connection, and hands out again what it had sent there."""


@pytest.fixture(autouse=True)
async def _fresh() -> AsyncIterator[None]:
    seen.reset()
    yield
    seen.reset()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"


@pytest.fixture
async def proxy(broker: Broker) -> AsyncIterator[Proxy]:
    async with proxy_to(broker.url) as between:
        yield between


@pytest.fixture
async def transport(proxy: Proxy, namespace: str) -> AsyncIterator[RabbitTransport]:
    transport = RabbitTransport(proxy.url, namespace=namespace)
    await transport.open()
    yield transport
    await transport.close()


def healed(transport: Transport) -> bool:
    state = transport.state
    return state.connected and state.consumers_wanted == state.consumers_actual


async def a_worker_behind(host: Host, proxy: Proxy) -> None:
    await host.stop_workers()
    await host.add_worker(address=proxy.url)


# --- a transport ------------------------------------------------------------------------------------------------------


async def test_a_transport_heals_each_time_that_its_connections_are_killed(
    transport: RabbitTransport, proxy: Proxy
) -> None:
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=5)
    for number in range(5):
        await proxy.cut()
        await eventually(lambda: not transport.state.connected)  # what is written before it knows is unsure
        await send(transport, b"%d" % number)
        await eventually(lambda wanted=b"%d" % number: wanted in inbox.bodies)  # type: ignore[misc]  # a default binds it
        await eventually(lambda: healed(transport))
    assert set(inbox.bodies) == {b"%d" % number for number in range(5)}


async def test_a_half_open_transport_heals_within_ten_seconds(
    transport: RabbitTransport, proxy: Proxy, broker: Broker, namespace: str
) -> None:
    """Also what it held is handed out again, as soon as the broker has noticed too."""
    inbox = Inbox()
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=2)
    await send(transport, b"in hand")
    await inbox.holds(1)
    begun = time.monotonic()
    proxy.half_open()
    waiting = asyncio.create_task(send(transport, b"meanwhile"))
    await eventually(lambda: not transport.state.connected, within=HEALS_WITHIN)
    await eventually(lambda: healed(transport), within=HEALS_WITHIN)
    assert time.monotonic() - begun < HEALS_WITHIN
    # It was written to the dead connection, so that nobody knows whether it arrived.
    (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
    assert type(outcome).__name__ == "PublishUnsureError"
    await send(transport, b"after")
    await eventually(lambda: b"after" in inbox.bodies)
    await eventually(lambda: inbox.bodies.count(b"in hand") == 2, within=BROKER_NOTICES_WITHIN)
    for delivery in inbox.deliveries:
        delivery.ack()


async def test_a_stall_that_is_shorter_than_two_heartbeats_costs_nothing(
    transport: RabbitTransport, proxy: Proxy
) -> None:
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=5)
    connections = [link.connection for link in transport._links]
    proxy.freeze()
    sending = asyncio.create_task(send(transport, b"x"))
    await asyncio.sleep(3)
    proxy.thaw()
    await sending
    await inbox.holds(1)
    assert [link.connection for link in transport._links] == connections


async def test_over_a_slow_network_everything_goes_on_side_by_side(transport: RabbitTransport, proxy: Proxy) -> None:
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=100)
    await send(transport, b"first")
    connections = [link.connection for link in transport._links]
    proxy.delay = 0.5
    begun = time.monotonic()
    await asyncio.gather(*(send(transport, b"%d" % number) for number in range(100)))
    await eventually(lambda: len(inbox) == 101)
    assert 1 <= time.monotonic() - begun < 25, "one after the other would take a hundred seconds"
    assert sorted(inbox.bodies[1:], key=int) == [b"%d" % number for number in range(100)]
    await asyncio.sleep(9)  # over two heartbeats
    assert [link.connection for link in transport._links] == connections


# --- the caller -------------------------------------------------------------------------------------------------------


async def test_a_first_delay_over_a_slow_network_waits_for_few_answers_of_the_broker(
    transport: RabbitTransport, proxy: Proxy
) -> None:
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=5)
    proxy.delay = 0.2
    delayed = transport.topology.delayed_call_route("calendar", "main", 1)
    # Declared one after the other, what it needs takes two hundred answers: 80 s.
    await transport.publish(delayed, Message(b"later", "call"), deadline=time.time() + 30)
    await eventually(lambda: b"later" in inbox.bodies)


async def test_calls_of_a_half_open_caller_end_once_and_new_ones_go_on(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, proxy.url) as host:
        await host.stop_workers()
        await host.add_worker(address=broker.url)
        calls = await held(host, "half", 20)
        begun = time.monotonic()
        proxy.half_open()
        seen.gate("half").set()
        transport = transport_of(host)
        await eventually(lambda: not transport.state.connected, within=HEALS_WITHIN)
        await eventually(
            lambda: transport.state.connected and transport.state.consumers_actual == 1, within=HEALS_WITHIN
        )
        assert time.monotonic() - begun < HEALS_WITHIN
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        # Replies went to the broker's end of the dead connection; it hands them out again when it has noticed.
        async with asyncio.timeout(BROKER_NOTICES_WITHIN):
            assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
        assert seen.runs["hold half"] == 20
        assert nothing_waits(host)


async def test_a_caller_whose_connections_are_killed_again_and_again_loses_no_call(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, proxy.url) as host:
        await host.stop_workers()
        await host.add_worker(address=broker.url)
        await every_call_ends_while_connections_are_killed(host, proxy)


async def test_calls_of_a_caller_behind_a_slow_network_go_side_by_side(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, proxy.url) as host:
        await host.stop_workers()
        await host.add_worker(address=broker.url)
        await many_calls_over_a_slow_network(host, proxy)


# --- the worker -------------------------------------------------------------------------------------------------------


async def test_calls_at_a_half_open_worker_run_once_and_end_once(proxy: Proxy, broker: Broker, namespace: str) -> None:
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await a_worker_behind(host, proxy)
        calls = await held(host, "half", 20)
        transport = host.workers[0].transport
        begun = time.monotonic()
        proxy.half_open()
        await eventually(lambda: not transport.state.connected, within=HEALS_WITHIN)
        await eventually(lambda: healed(transport), within=HEALS_WITHIN)
        assert time.monotonic() - begun < HEALS_WITHIN
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        seen.gate("half").set()
        async with asyncio.timeout(BROKER_NOTICES_WITHIN):
            assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
        await eventually(lambda: not host.workers[0].worker.in_flight)
        # What comes again when the broker has noticed as well is settled, and does not run again.
        queue = transport.topology.call_queue("contract", "main")
        async with asyncio.timeout(BROKER_NOTICES_WITHIN):
            while (await counted(broker.url, queue))[0] != 1:  # noqa: ASYNC110  it is asked of the broker
                await asyncio.sleep(0.1)
        await eventually(lambda: not host.workers[0].worker.in_flight)
        await host.stop_workers()
        assert await counted(broker.url, queue) == (0, 0)
        assert seen.runs["hold half"] == 20
        assert nothing_waits(host)


async def counted(url: str, queue: Queue) -> tuple[int | None, int | None]:
    """Count who consumes a queue and what waits there."""
    connection = await aiormq.connect(url)
    try:
        declared = await (await connection.channel()).queue_declare(queue.name, passive=True)
        return declared.consumer_count, declared.message_count
    finally:
        await connection.close()


async def test_replies_that_a_half_open_worker_had_written_arrive_all_the_same(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await a_worker_behind(host, proxy)
        calls = await held(host, "half", 20)
        proxy.half_open()
        seen.gate("half").set()
        async with asyncio.timeout(HEALS_WITHIN + BROKER_NOTICES_WITHIN):
            assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
        await eventually(lambda: not host.workers[0].worker.in_flight, within=BROKER_NOTICES_WITHIN)
        assert seen.runs["hold half"] == 20
        assert nothing_waits(host)


async def test_a_worker_whose_connections_are_killed_again_and_again_loses_no_call(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await a_worker_behind(host, proxy)
        await every_call_ends_while_connections_are_killed(host, proxy)


async def test_calls_at_a_worker_behind_a_slow_network_go_side_by_side(
    proxy: Proxy, broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await a_worker_behind(host, proxy)
        await many_calls_over_a_slow_network(host, proxy)


# --- at either side ---------------------------------------------------------------------------------------------------


async def every_call_ends_while_connections_are_killed(host: Host, proxy: Proxy) -> None:
    ended: list[Outcome] = []
    stopping = asyncio.Event()

    async def steady() -> None:
        while not stopping.is_set():
            ended.extend(await gather_outcomes(host.execute("add", {"a": 1, "b": 1})))

    streams = [asyncio.create_task(steady()) for _ in range(8)]
    for _ in range(6):
        wanted = len(ended) + 10
        await eventually(lambda wanted=wanted: len(ended) > wanted, within=30)  # type: ignore[misc]  # a default binds it
        await proxy.cut()
    stopping.set()
    async with asyncio.timeout(30):
        await asyncio.gather(*streams)
    # `add` is idempotent: what is unsure is sent again.
    assert told(ended) == {"completed": len(ended)}
    await eventually(lambda: nothing_waits(host))


async def many_calls_over_a_slow_network(host: Host, proxy: Proxy) -> None:
    await host.execute("add", {"a": 0, "b": 0})
    accepted = proxy.accepted
    proxy.delay = 0.3
    begun = time.monotonic()
    results = await asyncio.gather(*(host.execute("add", {"a": number, "b": 0}) for number in range(100)))
    assert [result["sum"] for result in results] == list(range(100))
    assert 0.6 <= time.monotonic() - begun < 20, "one after the other would take a minute"
    assert proxy.accepted == accepted, "no connection was given up"
    assert nothing_waits(host)
