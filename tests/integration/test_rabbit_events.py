"""Events on RabbitMQ: a listener whose queue is lost, and a worker that may not publish them."""

from __future__ import annotations

from dataclasses import replace

import aiormq
import pytest

from grundlag_bus import Address, InternalError, RabbitTransport, SealKeys, Worker, connect
from grundlag_bus.adapters.listening import QueueListener
from tests.support.broker import Broker
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker


async def serve(address: str | Address, namespace: str) -> RunningWorker:
    transport = RabbitTransport(address, namespace=namespace)
    return await RunningWorker(Worker(transport, make_registry(SealKeys.generate()), grace=0), transport).started()


async def test_a_listener_whose_queue_was_lost_counts_a_gap_and_hears_what_comes(amqp_url: str, namespace: str) -> None:
    seen.reset()
    running = await serve(amqp_url, namespace)
    async with connect(amqp_url, namespace=namespace) as bus, bus.events() as events:
        assert isinstance(events, QueueListener)
        connection = await aiormq.connect(amqp_url)
        await (await connection.channel()).queue_delete(events._queue.name)
        await connection.close()
        await eventually(lambda: events.gaps == 1, within=30)
        await bus.call("contractTell", {})
        assert (await anext(events)).event_id == "told"
    await running.stop()


async def test_a_worker_that_may_not_publish_events_fails_the_action_and_nothing_else(
    own_broker: Broker, namespace: str
) -> None:
    seen.reset()
    parts = Address.parse(own_broker.url)
    owner = RabbitTransport(parts, namespace=namespace)
    await owner.open()
    user = f"{namespace}-mute"
    events = owner.topology.events.name
    await own_broker.ctl("add_user", user, "secret")
    await own_broker.ctl("set_permissions", user, ".*", ".*", ".*")
    await own_broker.ctl("set_topic_permissions", user, events, "^nothing$", ".*")
    running = await serve(replace(parts, user=user, password="secret"), namespace)
    async with connect(own_broker.url, namespace=namespace) as bus:
        tools = await bus.to_tools()
        with pytest.raises(InternalError) as raised:
            await tools["contractTell"].execute({})
        assert raised.value.details["type"] == "EventNotSentError"
        assert await tools["contractAdd"].execute({"a": 1, "b": 2}) == {"sum": 3}
    await running.stop()
    await owner.close()
