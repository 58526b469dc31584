"""The delay ladder on RabbitMQ: over several levels, a crash, an outage, an alarm, and without the right to declare."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace

import aiormq
import pytest

from grundlag_bus.errors import (
    PublishRefusedError,
    TopologyMismatchError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.transport import Delivery, Message
from grundlag_bus.transport.parts import Ladder, Route
from grundlag_bus.transport.rabbitmq import Address, RabbitTransport
from grundlag_bus.transport.rabbitmq.connection import Connection
from grundlag_bus.transport.rabbitmq.declare import declare_ladder
from tests.support.broker import Broker
from tests.support.eventually import eventually
from tests.support.proxy import proxy_to
from tests.support.transports import Inbox, in_time, reconnect

PASSWORD = "ladder"


async def delay(transport: RabbitTransport, body: bytes, seconds: float, *, within: float = 60.0) -> None:
    route = transport.topology.delayed_call_route("calendar", "main", seconds)
    await transport.publish(route, Message(body, "call"), deadline=time.time() + within)


async def consume(transport: RabbitTransport) -> Inbox:
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=50)
    return inbox


async def test_delays_over_several_levels_end_in_their_second(amqp_url: str, namespace: str) -> None:
    took: dict[int, float] = {}
    published: dict[int, float] = {}

    def receive(delivery: Delivery) -> None:
        seconds = int(delivery.message.body)
        took[seconds] = time.time() - published[seconds]
        delivery.ack()

    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), receive, prefetch=10)
    await delay(transport, b"0", 2**19)  # declares the ladder
    for seconds in (11, 7, 10, 9, 5, 3):
        published[seconds] = time.time()
        await delay(transport, b"%d" % seconds, seconds)
    await eventually(lambda: len(took) == 6, within=20)
    assert list(took) == [3, 5, 7, 9, 10, 11]
    for seconds, after in took.items():
        assert seconds - 0.01 <= after < seconds + 1
    await transport.close()


async def test_delayed_messages_survive_a_killed_broker_and_come_once(own_broker: Broker, namespace: str) -> None:
    """Some are due before the crash, some while the broker is away, some afterwards; each crosses several levels."""
    many = 150
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    inbox = await consume(transport)
    await delay(transport, b"much later", 2**19)
    await own_broker.persist()
    began = time.time()
    await asyncio.gather(*(delay(transport, b"%d" % number, 1 + number % 15) for number in range(many)))
    await asyncio.sleep(max(0, began + 2.5 - time.time()))
    await own_broker.restart()
    await eventually(lambda: len(set(inbox.bodies)) == many, within=60)
    await asyncio.sleep(2)  # for any that would come twice
    counts = Counter(inbox.bodies)
    assert counts == dict.fromkeys((b"%d" % number for number in range(many)), 1)
    assert {delivery.lost for delivery in inbox.deliveries} == {0}
    await transport.close()


async def test_after_an_outage_the_ladder_is_declared_again(amqp_url: str, namespace: str) -> None:
    """As when the broker was replaced by an empty one meanwhile."""
    async with proxy_to(amqp_url) as proxy:
        transport = RabbitTransport(proxy.url, namespace=namespace)
        await transport.open()
        inbox = await consume(transport)
        await delay(transport, b"1", 1)
        await proxy.refuse()
        await proxy.cut()
        await eventually(lambda: all(link.connection is None for link in transport._links))
        waiting = asyncio.create_task(delay(transport, b"2", 1))
        await _delete_ladder(amqp_url, transport)
        await proxy.accept()
        await waiting
        await eventually(lambda: b"2" in inbox.bodies)
        await transport.close()


async def test_a_ladder_that_was_deleted_is_refused_once_and_then_made_anew(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    inbox = await consume(transport)
    await delay(transport, b"1", 1)
    await eventually(lambda: inbox.bodies == [b"1"])
    await _delete_ladder(amqp_url, transport)
    with pytest.raises(UnroutableError, match="no exchange"):
        await delay(transport, b"2", 1)
    await delay(transport, b"3", 1)
    connection = await aiormq.connect(amqp_url)
    await (await connection.channel()).queue_delete(transport.topology.ladder.queues[-1].name)
    await connection.close()
    with pytest.raises(UnroutableError):
        await delay(transport, b"4", 1)
    await delay(transport, b"5", 1)
    await eventually(lambda: b"5" in inbox.bodies)
    await transport.close()


async def test_plain_publishes_declare_no_ladder(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    await consume(transport)
    await delay(transport, b"now", 0)
    entrance = transport.topology.ladder.exchanges[-1].name
    with pytest.raises(UnroutableError, match="no exchange"):
        await transport.publish(Route(entrance, "x"), Message(b"x", "call"), deadline=in_time())
    await transport.close()


async def test_the_ladder_is_declared_once_and_again_on_a_new_connection(
    amqp_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared: list[Connection] = []

    async def counted(connection: Connection, ladder: Ladder) -> None:
        declared.append(connection)
        await declare_ladder(connection, ladder)

    monkeypatch.setattr("grundlag_bus.transport.rabbitmq.first_use.declare_ladder", counted)
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    await asyncio.gather(*(delay(transport, b"x", 1) for _ in range(20)))
    await delay(transport, b"x", 2)
    assert len(declared) == 1
    await reconnect(transport)
    assert len(declared) == 1, "lazily"
    await asyncio.gather(*(delay(transport, b"x", 1) for _ in range(20)))
    assert len(set(declared)) == len(declared) == 2
    await transport.close()


async def test_who_may_not_declare_uses_the_ladder_that_others_did(own_broker: Broker, namespace: str) -> None:
    parts = Address.parse(own_broker.url)
    user = f"{namespace}-ladder"
    await own_broker.ctl("add_user", user, PASSWORD)
    await own_broker.ctl("set_permissions", user, "^$", ".*", ".*")
    transport = RabbitTransport(parts, namespace=namespace)
    guest = RabbitTransport(replace(parts, user=user, password=PASSWORD), namespace=namespace)
    await transport.open()
    await guest.open()
    inbox = await consume(transport)
    with pytest.raises(UnroutableError, match="no exchange"):
        await delay(guest, b"1", 1)
    await delay(transport, b"2", 1)
    await delay(guest, b"3", 1)
    await eventually(lambda: inbox.bodies == [b"2", b"3"])
    await guest.close()
    await transport.close()


async def test_an_own_delay_queue_with_other_arguments_is_a_mismatch(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    first = transport.topology.ladder.queues[0]
    connection = await aiormq.connect(amqp_url)
    channel = await connection.channel()
    await channel.queue_declare(first.name, durable=True, arguments={**first.arguments, "x-message-ttl": 5})
    outcomes = await asyncio.gather(*(delay(transport, b"x", 1) for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TopologyMismatchError] * 3
    assert "x-message-ttl" in str(outcomes[0])
    await channel.queue_delete(first.name)
    await delay(transport, b"x", 1)
    await connection.close()
    await transport.close()


async def test_a_first_delay_during_an_outage_is_refused_at_its_deadline(amqp_url: str, namespace: str) -> None:
    async with proxy_to(amqp_url) as proxy:
        transport = RabbitTransport(proxy.url, namespace=namespace)
        await transport.open()
        await proxy.refuse()
        await proxy.cut()
        await eventually(lambda: all(link.connection is None for link in transport._links))
        with pytest.raises(PublishRefusedError, match="not declared by the deadline"):
            await delay(transport, b"x", 1, within=0.3)
        waiting = asyncio.create_task(delay(transport, b"x", 1))
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(TransportClosedError):
            await waiting
        assert {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}} <= {"proxy"}


async def test_a_first_delay_under_a_memory_alarm_waits_and_is_published(own_broker: Broker, namespace: str) -> None:
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    inbox = await consume(transport)
    await own_broker.raise_memory_alarm()
    waiting = asyncio.create_task(delay(transport, b"x", 1))
    await eventually(lambda: transport._first_use is not None and transport._first_use._there is not None)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await own_broker.lift_memory_alarm()
    await waiting
    await eventually(lambda: inbox.bodies == [b"x"])
    await transport.close()


async def test_a_cancelled_first_delay_does_not_spoil_it_for_others(amqp_url: str, namespace: str) -> None:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    inbox = await consume(transport)
    first, second = (asyncio.create_task(delay(transport, body, 1)) for body in (b"1", b"2"))
    await asyncio.sleep(0.02)
    first.cancel()
    await second
    await eventually(lambda: inbox.bodies == [b"2"])
    await transport.close()


async def _delete_ladder(url: str, transport: RabbitTransport) -> None:
    """Leave of the ladder nothing, and of the rest everything."""
    connection = await aiormq.connect(url)
    channel = await connection.channel()
    for queue in transport.topology.ladder.queues:
        await channel.queue_delete(queue.name)
    for exchange in transport.topology.ladder.exchanges:
        await channel.exchange_delete(exchange.name)
    await connection.close()
