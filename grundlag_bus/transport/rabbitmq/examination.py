"""Looks at a broker and a namespace for an operator: what this user may do, what is there, and whether as declared.

What is tried leaves nothing behind, and what is not there is not made.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from secrets import token_hex
from typing import TYPE_CHECKING, Self

from aiormq.exceptions import (
    AMQPError,
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
)

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.parts import Exchange, Queue
from grundlag_bus.transport.rabbitmq.administration import RabbitAdministration
from grundlag_bus.transport.rabbitmq.connection import Connection, patiently
from grundlag_bus.transport.rabbitmq.declare import (
    counted,
    declare_exchange,
    declare_queue,
    declare_stream,
    exchange_exists,
)
from grundlag_bus.transport.rabbitmq.transport import HEARTBEAT

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from grundlag_bus.transport.base import Broker
    from grundlag_bus.transport.parts import Stream
    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.topology import Topology

_PUBLISH_WITHIN = 5.0


class Tried(Enum):
    """How a trial went."""

    ALLOWED = auto()
    REFUSED = auto()
    BLOCKED = auto()
    """The broker takes no messages: it is short of memory or disk."""
    MISSING = auto()
    """There is nothing to try it on."""


class Examination:
    """One connection to look with, and one to publish with, which a broker in need may stop to read. Made by `open`."""

    def __init__(self, address: Address, connection: Connection, publishing: Connection, topology: Topology) -> None:
        self.address = address
        self._connection = connection
        self._publishing = publishing
        self._topology = topology
        self.administration = RabbitAdministration(address, connection)

    @classmethod
    async def open(cls, address: Address, topology: Topology, *, connect_timeout: float = 10.0) -> Self:
        """Connect; connect_timeout: seconds. Raises BusUnreachableError, ConfigurationError."""

        async def attempt() -> Connection:
            return await Connection.open(
                address, name="grundlag-bus (doctor)", heartbeat=HEARTBEAT, seconds=connect_timeout
            )

        connection = await patiently(attempt, connect_timeout)
        try:
            return cls(address, connection, await attempt(), topology)
        except BaseException:
            await connection.close()
            raise

    async def close(self) -> None:
        await asyncio.gather(self._publishing.close(), self.administration.close())

    @property
    def broker(self) -> Broker:
        return self._connection.broker

    @property
    def heartbeat(self) -> int:
        """Seconds."""
        return self._connection.heartbeat

    async def try_to_configure(self) -> Tried:
        """Declare a queue as a caller's mailbox is named, and delete it."""
        return await self._tried(self._mailbox(get=False))

    async def try_to_read(self) -> Tried:
        """Look into such a queue."""
        return await self._tried(self._mailbox(get=True))

    async def try_to_write(self, exchange: str) -> Tried:
        """Publish to an exchange what no queue takes."""
        return await self._tried(self._publish(exchange, b"{}"))

    async def try_size(self, size: int) -> Tried:
        """Publish a message of so many bytes; the broker gives it back, since no queue takes it."""
        return await self._tried(self._publish("", bytes(size)))

    async def is_there(self, part: Exchange | Queue | Stream) -> bool:
        """Whether it exists. Raises BusUnreachableError, also where this user may not ask."""
        if isinstance(part, Exchange):
            return await exchange_exists(self._connection, part.name)
        return await counted(self._connection, part.name) is not None

    async def compare(self, part: Exchange | Queue | Stream) -> None:
        """Declare what is there. Raises TopologyMismatchError where it is otherwise, BusUnreachableError."""
        if isinstance(part, Exchange):
            await declare_exchange(self._connection, part)
        elif isinstance(part, Queue):
            await declare_queue(self._connection, part)
        else:
            await declare_stream(self._connection, part)

    async def _mailbox(self, *, get: bool) -> None:
        name = self._topology.mailbox(f"doctor-{token_hex(8)}").name
        channel = await self._connection.channel()
        try:
            await self._connection.ask(channel.queue_declare(name, exclusive=True, auto_delete=True))
            if get:
                await self._connection.ask(channel.basic_get(name))
            await self._connection.ask(channel.queue_delete(name))
        finally:
            await self._connection.close_channel(channel)

    async def _publish(self, exchange: str, body: bytes) -> None:
        connection = self._publishing
        channel = await connection.channel(confirms=True)
        nobody = f"{self._topology.prefix}.doctor-{token_hex(8)}"
        try:
            async with asyncio.timeout(_PUBLISH_WITHIN):
                await connection.ask(channel.basic_publish(body, exchange=exchange, routing_key=nobody, mandatory=True))
        except DeliveryError:
            await connection.close_channel(channel)  # it came back
        except TimeoutError:
            connection.wire.abort("the broker does not read from it")
            raise

    async def _tried(self, trial: Awaitable[None]) -> Tried:
        try:
            await trial
        except ChannelAccessRefused as error:
            # Who may write to some topics only may write.
            return Tried.ALLOWED if "topic" in str(error) else Tried.REFUSED
        except ChannelPreconditionFailed:
            return Tried.REFUSED
        except ChannelNotFoundEntity:
            return Tried.MISSING
        except TimeoutError:
            return Tried.BLOCKED
        except (AMQPError, ConnectionError) as error:
            raise BusUnreachableError(f"The connection ended while it was tried what is allowed: {error}.") from error
        return Tried.ALLOWED
