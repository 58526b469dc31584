"""Every transport on one bus, under a namespace of the test's own."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from grundlag_bus.transport import MemoryBus, MemoryTransport, Topology, Transport
from tests.support.transports import OneBus

PROVIDERS = ("calendar", "notes")
MAILBOXES = ("ada", "bob")


@pytest.fixture(scope="session")
def amqp_url() -> str:
    return os.environ["GRUNDLAG_TEST_AMQP_URL"]


@pytest.fixture(scope="session")
def used_namespaces(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Collect namespaces on the broker; their queues and exchanges are deleted at the end."""
    namespaces: list[str] = []
    yield namespaces
    if namespaces:
        asyncio.run(_delete(request.getfixturevalue("amqp_url"), namespaces))


async def _delete(url: str, namespaces: list[str]) -> None:
    import aio_pika  # noqa: PLC0415  tests of the memory transport do without it

    async with await aio_pika.connect(url) as connection:
        channel = await (await connection.channel()).get_underlay_channel()
        for topology in map(Topology, namespaces):
            queues = [topology.call_queue(provider, "main") for provider in PROVIDERS]
            queues += [topology.mailbox(name) for name in MAILBOXES]
            for name in (topology.dead_queue.name, topology.manifests.name, *(queue.name for queue in queues)):
                await channel.queue_delete(name)
            for exchange in topology.exchanges:
                await channel.exchange_delete(exchange.name)


@pytest.fixture(params=["memory", "rabbitmq"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[OneBus]:
    namespace = f"contract-{uuid.uuid4().hex[:12]}"
    if request.param == "memory":
        shared = MemoryBus()
        one = OneBus(lambda name: MemoryTransport(namespace=name, bus=shared), namespace)
    else:
        from grundlag_bus.transport.rabbitmq import RabbitTransport  # noqa: PLC0415  slow, and not for memory

        url: str = request.getfixturevalue("amqp_url")
        used: list[str] = request.getfixturevalue("used_namespaces")
        used += [namespace, f"{namespace}-other"]
        one = OneBus(lambda name: RabbitTransport(url, namespace=name), namespace)
    yield one
    await one.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"


@pytest.fixture
async def transport(bus: OneBus) -> Transport:
    return await bus.open()


@pytest.fixture
async def peer(bus: OneBus) -> Transport:
    """Open a second transport on the same bus, as another process has it."""
    return await bus.open()
