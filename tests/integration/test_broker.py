"""What the fault tests build on: a broker that can be killed and alarmed, and comes back with its port and its data."""

from __future__ import annotations

import asyncio

import aiormq
import pytest
from pamqp.commands import Basic
from pamqp.common import FieldTable

from tests.support.broker import Broker

QUORUM: FieldTable = {"x-queue-type": "quorum"}


async def test_a_killed_broker_comes_back_with_what_it_confirmed(own_broker: Broker, namespace: str) -> None:
    connection = await aiormq.connect(own_broker.url)
    channel = await connection.channel(publisher_confirms=True)
    await channel.queue_declare(namespace, durable=True, arguments=QUORUM)
    await channel.basic_publish(b"kept", routing_key=namespace, properties=Basic.Properties(delivery_mode=2))
    await own_broker.persist()

    await own_broker.kill()
    assert not own_broker.running
    await connection.close()
    with pytest.raises(aiormq.exceptions.AMQPConnectionError):
        await aiormq.connect(own_broker.url)

    await own_broker.start()
    connection = await aiormq.connect(own_broker.url)
    channel = await connection.channel()
    assert (await channel.basic_get(namespace, no_ack=True)).body == b"kept"
    await channel.queue_delete(namespace)
    await connection.close()


async def test_a_stopped_broker_says_goodbye_and_comes_back(own_broker: Broker) -> None:
    connection = await aiormq.connect(own_broker.url)
    closed = asyncio.ensure_future(connection.closing)

    await own_broker.stop()
    with pytest.raises(aiormq.exceptions.ConnectionClosed, match="CONNECTION_FORCED"):
        await closed

    await own_broker.start()
    await (await aiormq.connect(own_broker.url)).close()


async def test_a_memory_alarm_holds_publishers_until_it_is_lifted(own_broker: Broker, namespace: str) -> None:
    connection = await aiormq.connect(own_broker.url)
    channel = await connection.channel(publisher_confirms=True)
    await channel.queue_declare(namespace, durable=True)

    await own_broker.raise_memory_alarm()
    publishing = asyncio.ensure_future(channel.basic_publish(b"held", routing_key=namespace))
    assert not (await asyncio.wait([publishing], timeout=0.5))[0]

    await own_broker.lift_memory_alarm()
    await publishing
    await channel.queue_delete(namespace)
    await connection.close()
