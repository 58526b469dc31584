"""What tests of a transport need on both sides of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from grundlag_bus.transport import Administration, Delivery, MemoryAdministration, MemoryTransport, Message, Transport
from tests.support.eventually import eventually


@dataclass
class OneBus:
    """Opens transports that meet each other, and closes what a test left open."""

    make: Callable[[str], Transport]
    namespace: str
    opened: list[Transport] = field(default_factory=list)

    def transport(self, *, namespace: str | None = None) -> Transport:
        """Make one that is not open yet."""
        transport = self.make(namespace or self.namespace)
        self.opened.append(transport)
        return transport

    async def open(self, *, namespace: str | None = None) -> Transport:
        transport = self.transport(namespace=namespace)
        await transport.open()
        return transport

    @property
    def namespaces(self) -> set[str]:
        return {transport.topology.namespace for transport in self.opened}

    async def close(self) -> None:
        for transport in self.opened:
            await transport.close()


class Inbox:
    """Receives deliveries, and settles them at once if told to."""

    def __init__(self, *, ack: bool = False) -> None:
        self.deliveries: list[Delivery] = []
        self._ack = ack

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        if self._ack:
            delivery.ack()

    def __len__(self) -> int:
        return len(self.deliveries)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.message.body for delivery in self.deliveries]

    async def holds(self, count: int) -> list[bytes]:
        """Wait for that many deliveries and return their bodies: more than that fails."""
        await eventually(lambda: len(self) >= count)
        assert len(self) == count, self.bodies
        return self.bodies


def in_time() -> float:
    """Make a deadline that no test reaches."""
    return time.time() + 60


async def send(transport: Transport, *bodies: bytes, provider_id: str = "calendar") -> None:
    """Publish calls one after the other."""
    for body in bodies:
        await transport.publish(
            transport.topology.call_route(provider_id, "main"), Message(body, "call"), deadline=in_time()
        )


async def administration_of(transport: Transport) -> Administration:
    """Open an operator's hands on the bus that this transport is on."""
    if isinstance(transport, MemoryTransport):
        return MemoryAdministration(transport._bus)
    from grundlag_bus.transport.rabbitmq import RabbitAdministration  # noqa: PLC0415  slow, and not for memory

    return await RabbitAdministration.open(getattr(transport, "address"))  # noqa: B009  as below


async def reconnect(transport: Transport) -> None:
    """Lose the connection, with all that is in hand, and return when it is there again."""
    if isinstance(transport, MemoryTransport):
        transport.reconnect()
        return
    links = getattr(transport, "_links")  # noqa: B009  a white-box look at RabbitTransport, slow to import for memory
    for link in links:
        link.connection.wire.abort("a test cut it")
    await eventually(lambda: all(link.connection is None for link in links))
    await eventually(lambda: all(link.connection is not None for link in links))
