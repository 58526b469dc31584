"""Moves bytes and decides nothing: the Transport protocol, the topology as data, and its implementations.

`RabbitTransport` is in `grundlag_bus.transport.rabbitmq` and not imported here, since its client is slow to import.
"""

from grundlag_bus.transport.administration import Administration
from grundlag_bus.transport.base import Broker, Delivery, Message, Subscription, Transport, TransportState
from grundlag_bus.transport.memory import MemoryAdministration, MemoryBus, MemoryTransport, named_bus
from grundlag_bus.transport.topology import Topology

__all__ = [
    "Administration",
    "Broker",
    "Delivery",
    "MemoryAdministration",
    "MemoryBus",
    "MemoryTransport",
    "Message",
    "Subscription",
    "Topology",
    "Transport",
    "TransportState",
    "named_bus",
]
