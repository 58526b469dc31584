"""A consumer's channel on one connection, and the deliveries that came over it.

A fresh consumer tag each time: the broker closes the whole connection for one that it has not forgotten yet.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiormq.exceptions import AMQPChannelError, AMQPError

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
_MOST_PREFETCH = 65_535
_WITHOUT_BOUND = 2**40


class RabbitDelivery:
    """See `Delivery`."""

    __slots__ = ("_consumer", "_era", "_tag", "lost", "message", "redelivered")

    def __init__(  # noqa: PLR0913  what came, and where
        self, consumer: Consumer, tag: int, message: Message, *, redelivered: bool, lost: int, era: int
    ) -> None:
        self._consumer: Consumer | None = consumer
        self._tag = tag
        self._era = era
        self.message = message
        self.redelivered = redelivered
        self.lost = lost

    @property
    def held(self) -> bool:
        return self._consumer is not None and self._consumer.live

    def ack(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.settle(frames.ack(consumer.number, self._tag), self._era)

    def nack(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.settle(frames.nack(consumer.number, self._tag), self._era)

    def reject(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.live:
            consumer.settle(frames.reject(consumer.number, self._tag), self._era)


class Consumer(Taker):
    """The channel of a subscription on one connection.

    live: whether settling on it means anything. consuming: whether it takes deliveries, as soon as there is room.
    gives_back: whether what arrives is not wanted. tags: of its consumers, oldest first. retired: whether it is there
    for what is in hand alone. revived: whether the broker took up again what it had cancelled, and should not have.

    The broker counts what is in hand for each consumer tag, and forgets that of a tag that was cancelled. So that no
    more than `prefetch` is in hand after a pause either, a fresh tag gets only the room that is left, and another one
    what becomes free when older deliveries are settled. An era is the time between two cancels.
    """

    def __init__(
        self,
        connection: Connection,
        receive: Callable[[Delivery], None],
        changed: asyncio.Event,
        *,
        prefetch: int,
        arguments: dict[str, Any] | None,
    ) -> None:
        self.connection = connection
        self.wire = connection.wire
        self.channel: AbstractChannel | None = None
        self.number = 0
        self.live = False
        self.consuming = False
        self.gives_back = False
        self._receive = receive
        self._changed = changed
        self._prefetch = self._room = prefetch or _WITHOUT_BOUND
        self._arguments = arguments
        self.in_hand = 0
        self._era = 0
        self.tags: list[str] = []
        self._cancelled: list[str] = []
        self.retired = self.revived = False

    async def open(self) -> None:
        channel = await self.connection.channel(self)
        self.channel, self.number, self.live = channel, channel.number, True

    async def consume(self, queue: str) -> None:
        """Take deliveries for all the room that there is."""
        channel = self.channel
        assert channel is not None  # noqa: S101  opened before
        self.consuming = True
        room = self._room
        if room <= 0:
            return
        tag = uuid.uuid4().hex
        self._room = 0
        self.tags.append(tag)
        await self.connection.ask(channel.basic_qos(prefetch_count=room if room <= _MOST_PREFETCH else 0))
        try:
            await self.connection.ask(channel.basic_consume(queue, _never, consumer_tag=tag, arguments=self._arguments))
        except AMQPChannelError as error:
            raise refused("queue", queue, error) from error

    @property
    def has_room(self) -> bool:
        """Whether more can be taken than the broker was told."""
        return self._room > 0

    async def cancel(self) -> None:
        """End the consumer. What is delivered until the broker has done so is given back, if it is not wanted."""
        if self.channel is not None and self.live and self.tags:
            self.consuming = False
            while self.tags:
                await self.connection.ask(self.channel.basic_cancel(self.tags.pop()))
            self._era += 1
            self._room = self._prefetch - self.in_hand
        self.consuming = False

    @property
    def has_lost_one(self) -> bool:
        """Whether the broker cancelled a consumer here, by what it said or by aiormq's books."""
        channel: Any = self.channel
        return bool(self._cancelled) or not all(tag in channel.consumers for tag in self.tags)

    async def retire(self) -> None:
        """Take nothing more, and live on for what is in hand."""
        self.retired = self.gives_back = True
        await self.cancel()

    async def end_again(self) -> None:
        """Cancel what the broker took up again."""
        self.revived = False
        self.tags, self._cancelled = self._cancelled, []
        await self.cancel()

    async def close(self) -> None:
        """Give back what is not settled, by a nack, which unlike closing counts against no message; then close."""
        if self.channel is None:
            return
        if self.live and self.retired:  # settling may have it taken up again, and what it gets then would count as lost
            with suppress(AMQPError, ConnectionError):
                await self.end_again()
        if self.live:
            self.live = self.consuming = False
            self.wire.send(frames.nack(self.number, 0, multiple=True))
        await self.connection.close_channel(self.channel, self)

    def is_well(self) -> bool:
        """Whether the consumer is there, by aiormq's own books."""
        channel: Any = self.channel
        return (
            self.live
            and self.consuming
            and not channel.is_closed
            and all(tag in channel.consumers for tag in self.tags)
        )

    def settle(self, frame: bytes, era: int) -> None:
        """Tell the broker what became of a delivery of an era."""
        self.wire.send(frame)
        self.in_hand -= 1
        if self.retired:
            if not self.in_hand:
                self._changed.set()
        elif era != self._era:
            self._room += 1
            if not self.tags:
                self._changed.set()

    def delivered(self, tag: int, message: Message, *, redelivered: bool, lost: int) -> None:
        if not self.live:  # the channel is about to close, and with it the message goes back
            return
        if self.gives_back:
            self.wire.send(frames.nack(self.number, tag))
            if self.retired and not self.tags:
                self.revived = True
                self._changed.set()
            return
        self.in_hand += 1
        try:
            self._receive(RabbitDelivery(self, tag, message, redelivered=redelivered, lost=lost, era=self._era))
        except Exception:  # noqa: BLE001  it must not raise, and if it does the other channels go on
            _log.exception("bus.receive_failed")

    def cancelled(self, tag: str) -> None:
        if tag in self.tags:
            self.tags.remove(tag)
            self._cancelled.append(tag)
            self.consuming = False
            self._changed.set()

    def closed(self, reason: str) -> None:  # noqa: ARG002  the link tells why
        self.live = self.consuming = False
        self._changed.set()


async def _never(message: DeliveredMessage) -> None:
    """Stand in aiormq's books as the consumer: the wire takes deliveries before aiormq sees any."""
