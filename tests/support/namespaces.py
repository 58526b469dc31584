"""Namespaces that belong to one test each, and their removal from the broker."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import aiormq

from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

# AMQP cannot list queues: what tests declare under their namespaces is one of these providers' (or a mailbox, which
# the broker removes by itself). A test with a provider of another id adds it here.
PROVIDERS = ("calendar", "contract", "demo", "form", "notes", "shop")
LANES = ("main", "long")


def fresh_namespace() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


async def delete_namespaces(url: str, namespaces: Iterable[str]) -> None:
    """Delete what these namespaces hold on the broker; what does not exist is no error."""
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        for topology in map(Topology, namespaces):
            queues = [topology.call_queue(provider, lane) for provider in PROVIDERS for lane in LANES]
            streams = (topology.manifests.name, topology.starts.name, topology.cancels.name)
            for name in (topology.dead_queue.name, *streams, *(queue.name for queue in queues)):
                await channel.queue_delete(name)
            exchanges = list(topology.exchanges)
            if await _exists(connection, topology.ladder.exchanges[0].name):
                for queue in topology.ladder.queues:
                    await channel.queue_delete(queue.name)
                exchanges += topology.ladder.exchanges
            for exchange in exchanges:
                await channel.exchange_delete(exchange.name)
    finally:
        await connection.close()


async def _exists(connection: aiormq.abc.AbstractConnection, exchange: str) -> bool:
    channel = await connection.channel()
    try:
        await channel.exchange_declare(exchange, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return False
    await channel.close()
    return True
