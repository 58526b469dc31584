"""Administration of RabbitMQ, over one connection that lasts as long as it does."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from aiormq.exceptions import AMQPChannelError, AMQPError, ChannelNotFoundEntity

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.schema.dead_letter import Death
from grundlag_bus.transport.administration import Counts, Taken
from grundlag_bus.transport.base import Message
from grundlag_bus.transport.parts import Exchange
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.address import Address
from grundlag_bus.transport.rabbitmq.connection import Connection, patiently
from grundlag_bus.transport.rabbitmq.declare import counted, refused
from grundlag_bus.transport.rabbitmq.foreign import UNREADABLE
from grundlag_bus.transport.rabbitmq.stream import read_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiormq.abc import AbstractChannel, DeliveredMessage

    from grundlag_bus.transport.parts import Queue, Stream

_HEARTBEAT = 10
_UNTOLD = Death("unreadable", "a queue that cannot be told, since its headers cannot be read", 0.0)
"""Of a message that may have such a note: taken for one without, it could lead past the queue that it came through."""


class RabbitAdministration:
    """See `Administration`. Made by `open`."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self._address = address
        self._connection = connection
        self._taking: AbstractChannel | None = None

    @classmethod
    async def open(cls, address: Address | str, *, connect_timeout: float = 10.0) -> Self:
        """Connect; connect_timeout: seconds. Raises BusUnreachableError, ConfigurationError."""
        where = Address.parse(address) if isinstance(address, str) else address

        async def attempt() -> Connection:
            return await Connection.open(
                where, name="grundlag-bus (administration)", heartbeat=_HEARTBEAT, seconds=connect_timeout
            )

        return cls(where, await patiently(attempt, connect_timeout))

    async def take(self, queue: str, most: int) -> list[Taken]:
        taken: list[Taken] = []
        with self._told("queue", queue):
            channel = await self._taking_channel()
            try:
                while len(taken) < most:
                    got = await self._connection.ask(channel.basic_get(queue))
                    if got.delivery_tag is None:
                        break
                    taken.append(_taken(got, _Hold(self._connection, channel, got.delivery_tag)))
            except ChannelNotFoundEntity:
                return []
        return taken

    async def count(self, queue: str) -> Counts | None:
        with self._told("queue", queue):
            return await counted(self._connection, queue)

    async def read(self, stream: Stream) -> list[bytes]:
        return await read_stream(self._connection, stream)

    async def delete(self, part: Exchange | Queue | Stream) -> None:
        kind = "exchange" if isinstance(part, Exchange) else "queue"
        with self._told(kind, part.name):
            channel = await self._connection.channel()
            deleting = channel.exchange_delete if kind == "exchange" else channel.queue_delete
            await self._connection.ask(deleting(part.name))
            await self._connection.close_channel(channel)

    async def close(self) -> None:
        # By a nack, which counts as no delivery that was lost.
        if self._taking is not None and not self._taking.is_closed:
            self._connection.wire.send(frames.nack(self._taking.number, 0, multiple=True))
        await self._connection.close()

    async def _taking_channel(self) -> AbstractChannel:
        """Return the one channel that holds what is taken, since the broker forgets it with its channel."""
        if self._taking is None or self._taking.is_closed:
            self._taking = await self._connection.channel()
        return self._taking

    @contextmanager
    def _told(self, kind: str, name: str) -> Iterator[None]:
        try:
            yield
        except AMQPChannelError as error:
            raise refused(kind, name, error) from error
        except (AMQPError, ConnectionError) as error:
            raise BusUnreachableError(f"The connection to {self._address} ended: {error}.") from error


class _Hold:
    """A message that was got and is not settled."""

    __slots__ = ("_acked", "_channel", "_connection", "_settled", "_tag")

    def __init__(self, connection: Connection, channel: AbstractChannel, tag: int) -> None:
        self._connection = connection
        self._channel = channel
        self._tag = tag
        self._acked = self._settled = False

    @property
    def held(self) -> bool:
        return not (self._settled or self._channel.is_closed or self._connection.wire.lost.done())

    async def ack(self) -> None:
        if self._acked:
            return
        if not self.held:
            raise BusUnreachableError("The message is held no more: its queue has it again.")
        self._acked = self._settled = True
        self._connection.wire.send(frames.ack(self._channel.number, self._tag))
        try:  # a channel answers in order, and to an ack with nothing
            await self._connection.ask(self._channel.basic_qos(prefetch_count=0))
        except (AMQPError, ConnectionError) as error:
            self._acked = False
            raise BusUnreachableError(
                "The connection ended before the broker told that the message is removed: its queue may have it again."
            ) from error

    def nack(self) -> None:
        if self.held:
            self._settled = True
            self._connection.wire.send(frames.nack(self._channel.number, self._tag))


def _taken(got: DeliveredMessage, hold: _Hold) -> Taken:
    properties = got.header.properties
    message = Message(got.body, properties.message_type or "", properties.correlation_id, properties.reply_to)
    return Taken(message, _death(properties.headers or {}), hold)


def _death(headers: dict[str, Any]) -> Death | None:
    """Read the newest note of a dead letter: strangers may write any headers."""
    if UNREADABLE in headers:
        return _UNTOLD
    deaths = headers.get("x-death")
    told = [death for death in deaths if isinstance(death, dict)] if isinstance(deaths, list) else []
    if not told:
        return None
    last = (headers.get("x-last-death-queue"), headers.get("x-last-death-reason"))  # 4.x; the first one before
    death = next((one for one in told if (one.get("queue"), one.get("reason")) == last), told[0])
    at = death.get("time")
    return Death(str(death.get("reason")), str(death.get("queue")), at.timestamp() if isinstance(at, datetime) else 0.0)
