"""What a transport tells of itself and of its broker, while that is well and while it is not."""

from __future__ import annotations

import asyncio

import structlog

from grundlag_bus.transport.rabbitmq import RabbitTransport
from tests.support.broker import Broker
from tests.support.eventually import eventually
from tests.support.proxy import proxy_to
from tests.support.transports import Inbox, send


async def test_a_memory_alarm_is_visible_with_one_line_and_so_is_its_end(own_broker: Broker, namespace: str) -> None:
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    try:
        inbox = Inbox(ack=True)
        await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=5)
        await send(transport, b"before")
        await own_broker.raise_memory_alarm()
        with structlog.testing.capture_logs() as logged:
            held_back = [asyncio.create_task(send(transport, b"%d" % number)) for number in range(5)]
            await eventually(lambda: transport.state.blocked)
            assert transport.state.connected, "it is blocked and not gone"
            assert (transport.state.consumers_wanted, transport.state.consumers_actual) == (1, 1)
            await own_broker.lift_memory_alarm()
            await asyncio.gather(*held_back)
            assert not transport.state.blocked
        assert [entry["event"] for entry in logged] == ["bus.blocked", "bus.unblocked"]
        assert "memory" in logged[0]["reason"]
    finally:
        await transport.close()


async def test_a_connection_that_is_lost_while_it_is_blocked_comes_back_unblocked(
    own_broker: Broker, namespace: str
) -> None:
    async with proxy_to(own_broker.url) as proxy:
        transport = RabbitTransport(proxy.url, namespace=namespace)
        await transport.open()
        try:
            inbox = Inbox(ack=True)
            await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=5)
            await own_broker.raise_memory_alarm()
            unsure = asyncio.create_task(send(transport, b"unsure"))
            await eventually(lambda: transport.state.blocked)
            await proxy.refuse()
            await proxy.cut()
            await eventually(lambda: not transport.state.connected)
            await eventually(lambda: not transport.state.blocked)  # nobody knows
            await own_broker.lift_memory_alarm()
            await proxy.accept()
            await eventually(lambda: transport.state.connected)
            assert not transport.state.blocked
            await asyncio.gather(unsure, return_exceptions=True)
            await send(transport, b"after")
            await eventually(lambda: b"after" in inbox.bodies)
        finally:
            await transport.close()


async def test_a_consumer_s_connection_that_is_lost_meanwhile_changes_nothing_about_that(
    own_broker: Broker, namespace: str
) -> None:
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    try:
        await transport.subscribe(transport.topology.call_queue("calendar", "main"), Inbox(ack=True), prefetch=5)
        await own_broker.raise_memory_alarm()
        held_back = asyncio.create_task(send(transport, b"x"))
        await eventually(lambda: transport.state.blocked)
        consuming = transport._links[1]
        assert consuming.connection is not None
        consuming.connection.wire.abort("a test cut it")
        await eventually(lambda: not transport.state.connected)
        await eventually(lambda: transport.state.connected)
        assert transport.state.blocked
        await own_broker.lift_memory_alarm()
        await held_back
        assert not transport.state.blocked
    finally:
        await transport.close()


async def test_what_is_wanted_is_told_apart_from_what_there_is(broker: Broker, namespace: str) -> None:
    async with proxy_to(broker.url) as proxy:
        transport = RabbitTransport(proxy.url, namespace=namespace)
        await transport.open()
        try:
            queue = transport.topology.call_queue("calendar", "main")
            subscriptions = [await transport.subscribe(queue, Inbox(), prefetch=1) for _ in range(2)]
            assert transport.state.consumers_actual == 2
            await proxy.refuse()
            await proxy.cut()
            await eventually(lambda: not transport.state.connected and transport.state.consumers_actual == 0)
            assert transport.state.consumers_wanted == 2
            await proxy.accept()
            await eventually(lambda: transport.state.connected and transport.state.consumers_actual == 2)
            await subscriptions[0].stop()
            assert (transport.state.consumers_wanted, transport.state.consumers_actual) == (1, 1)
        finally:
            await transport.close()
    assert transport.state == type(transport.state)(
        connected=False, blocked=False, consumers_wanted=0, consumers_actual=0
    )


async def test_the_broker_is_known_by_name_and_version(broker: Broker, namespace: str) -> None:
    transport = RabbitTransport(broker.url, namespace=namespace)
    await transport.open()
    try:
        assert str(transport.broker) == f"RabbitMQ {broker.version}"
        modern = transport.broker.version >= (4, 3)
        assert (transport.broker.honours_consumer_timeout, transport.broker.counts_only_losses) == (modern, modern)
    finally:
        await transport.close()
