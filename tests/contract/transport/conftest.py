"""Every transport on one bus, under a namespace of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from grundlag_bus.transport import MemoryBus, MemoryTransport, Transport
from tests.support.namespaces import delete_namespaces
from tests.support.transports import OneBus


def a_bus(request: pytest.FixtureRequest, namespace: str) -> OneBus:
    if request.param == "memory":
        shared = MemoryBus()
        return OneBus(lambda name: MemoryTransport(namespace=name, bus=shared), namespace)
    from grundlag_bus.transport.rabbitmq import RabbitTransport  # noqa: PLC0415  slow, and not for memory

    url: str = request.getfixturevalue("amqp_url")
    return OneBus(lambda name: RabbitTransport(url, namespace=name), namespace)


@pytest.fixture(params=["memory", "rabbitmq"])
async def bus(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[OneBus]:
    one = a_bus(request, namespace)
    yield one
    await one.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"
    if request.param != "memory" and (others := one.namespaces - {namespace}):
        await delete_namespaces(request.getfixturevalue("amqp_url"), others)


@pytest.fixture
async def transport(bus: OneBus) -> Transport:
    return await bus.open()


@pytest.fixture
async def peer(bus: OneBus) -> Transport:
    """Open a second transport on the same bus, as another process has it."""
    return await bus.open()
