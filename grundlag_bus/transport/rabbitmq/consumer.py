"""A consumer's channel on one connection, and the deliveries that came over it.

A fresh consumer tag each time: the broker closes the whole connection for one that it has not forgotten yet.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from aiormq.exceptions import AMQPChannelError

from grundlag_bus.logs import get_logger
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.declare import refused
from grundlag_bus.transport.rabbitmq.wire import Taker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiormq.abc import AbstractChannel, DeliveredMessage

    from grundlag_bus.transport.base import Delivery, Message
    from grundlag_bus.transport.rabbitmq.connection import Connection

_log = get_logger(__name__)


class RabbitDelivery:
    """See `Delivery`."""

    __slots__ = ("_consumer", "_tag", "lost", "message", "redelivered")

    def __init__(self, consumer: Consumer, tag: int, message: Message, *, redelivered: bool, lost: int) -> None:
        self._consumer: Consumer | None = consumer
        self._tag = tag
        self.message = message
        self.redelivered = redelivered
        self.lost = lost

    def ack(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.wire.send(frames.ack(consumer.number, self._tag))

    def nack(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.wire.send(frames.nack(consumer.number, self._tag))

    def reject(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.wire.send(frames.reject(consumer.number, self._tag))


class Consumer(Taker):
    """The channel of a subscription on one connection.

    live: whether settling on it means anything. consuming: whether the broker has a consumer for it.
    """

    def __init__(self, connection: Connection, receive: Callable[[Delivery], None], changed: asyncio.Event) -> None:
        self.connection = connection
        self.wire = connection.wire
        self.channel: AbstractChannel | None = None
        self.number = 0
        self.live = False
        self.consuming = False
        self.stopping = False
        self.tag = ""
        self._receive = receive
        self._changed = changed

    async def open(self, prefetch: int) -> AbstractChannel:
        channel = await self.connection.channel(self)
        self.channel, self.number, self.live = channel, channel.number, True
        await self.connection.ask(channel.basic_qos(prefetch_count=prefetch))
        return channel

    async def consume(self, queue: str) -> None:
        assert self.channel is not None  # noqa: S101  opened before
        self.tag = uuid.uuid4().hex
        self.consuming = True
        try:
            await self.connection.ask(self.channel.basic_consume(queue, _never, consumer_tag=self.tag))
        except AMQPChannelError as error:
            raise refused("queue", queue, error) from error

    async def cancel(self) -> None:
        """End the consumer. What is delivered until the broker has done so is given back."""
        if self.channel is not None and self.live and self.consuming:
            self.consuming = False
            await self.connection.ask(self.channel.basic_cancel(self.tag))

    async def close(self) -> None:
        """Give back what is not settled, by a nack, which unlike closing counts against no message; then close."""
        if self.channel is None:
            return
        if self.live:
            self.live = self.consuming = False
            self.wire.send(frames.nack(self.number, 0, multiple=True))
        await self.connection.close_channel(self.channel, self)

    def is_well(self) -> bool:
        """Whether the consumer is there, by aiormq's own books."""
        channel: Any = self.channel
        return self.live and self.consuming and not channel.is_closed and self.tag in channel.consumers

    def delivered(self, tag: int, message: Message, *, redelivered: bool, lost: int) -> None:
        if not self.live:  # the channel is about to close, and with it the message goes back
            return
        if self.stopping:
            self.wire.send(frames.nack(self.number, tag))
            return
        try:
            self._receive(RabbitDelivery(self, tag, message, redelivered=redelivered, lost=lost))
        except Exception:  # noqa: BLE001  it must not raise, and if it does the other channels go on
            _log.exception("bus.receive_failed")

    def cancelled(self) -> None:
        self.consuming = False
        self._changed.set()

    def closed(self, reason: str) -> None:  # noqa: ARG002  the link tells why
        self.live = self.consuming = False
        self._changed.set()


async def _never(message: DeliveredMessage) -> None:
    """Stand in aiormq's books as the consumer: the wire takes deliveries before aiormq sees any."""
