"""The transport on a bus inside this process."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus._version import __version__
from grundlag_bus.errors import PublishExpiredError, TransportClosedError
from grundlag_bus.transport.base import Broker, TransportState
from grundlag_bus.transport.memory.bus import MemoryBus
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Delivery, Message
    from grundlag_bus.transport.memory.queue import Entry, MemoryQueue
    from grundlag_bus.transport.topology import Ladder, Queue, Route, Stream


_BROKER = Broker(
    "memory",
    tuple(int(part) for part in re.findall(r"\d+", __version__)),
    honours_consumer_timeout=True,
    counts_only_losses=True,
)


class MemoryTransport:
    """A transport on a bus of its own, or on one that it shares.

    bus: a `MemoryBus`, or `named_bus(name)` for one by name; clock: Unix seconds, for deadlines (and for delays and the
    expiry of queues on a bus of its own).
    """

    embedded = True

    def __init__(
        self, *, namespace: str = "grundlag", clock: Callable[[], float] = time.time, bus: MemoryBus | None = None
    ) -> None:
        self.topology = Topology(namespace)
        self._clock = clock
        self._bus = bus if bus is not None else MemoryBus(clock=clock)
        self._subscriptions: set[_Subscription] = set()
        self._ladder: Ladder | None = None
        self._open = False
        self._closed = False

    @property
    def broker(self) -> Broker:
        """See `Transport.broker`."""
        if not self._open:
            raise _closed()
        return _BROKER

    @property
    def state(self) -> TransportState:
        """See `Transport.state`."""
        taking = sum(subscription.taking for subscription in tuple(self._subscriptions))
        return TransportState(self._open, blocked=False, consumers_wanted=taking, consumers_actual=taking)

    def now(self) -> float:
        """See `Transport.now`."""
        return self._clock()

    async def open(self) -> None:
        """See `Transport.open`."""
        if self._closed:
            raise TransportClosedError("The memory transport was closed: make another one, on the same bus if need be.")
        self._bus.attach()
        for exchange in self.topology.exchanges:
            self._bus.declare_exchange(exchange)
        self._bus.declare(self.topology.dead_queue)
        self._open = True

    async def close(self) -> None:
        self._open, self._closed = False, True
        for subscription in tuple(self._subscriptions):
            await subscription.close()

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        """Put the message into its queues. Waits for nothing but a turn of the loop; a passed deadline refuses it."""
        if not self._open:
            raise _closed()
        try:
            if self._clock() >= deadline:
                raise PublishExpiredError("The deadline passed before the message was published: nothing was sent.")
            if route.needs is not None and route.needs is not self._ladder:
                self._bus.declare_ladder(route.needs)
                self._ladder = route.needs
            if written is not None:
                written()
            self._bus.publish(route, message)
        finally:
            await asyncio.sleep(0)  # also on an error: who tries again at once must not hold up the loop

    async def subscribe(
        self,
        queue: Queue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        renewed: Callable[[], None] | None = None,  # noqa: ARG002  there is no connection to lose
        consumer_timeout: float | None = None,
    ) -> _Subscription:
        """Declare the queue and consume it. prefetch: 0 is without bound; consumer_timeout: by the loop's clock."""
        if not self._open:
            raise _closed()
        subscription = _Subscription(
            self._bus,
            self._bus.declare(queue),
            receive,
            prefetch=prefetch,
            consumer_timeout=consumer_timeout,
            siblings=self._subscriptions,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def read(self, stream: Stream) -> list[bytes]:
        if not self._open:
            raise _closed()
        return self._bus.declare_stream(stream).read()

    def reconnect(self) -> None:
        """Lose the connection and have it again, as a test of faults wants it: all in hand is lost and comes again."""
        for subscription in tuple(self._subscriptions):
            subscription.lose()


class _Delivery:
    """A message in hand."""

    __slots__ = ("_subscription", "lost", "message", "redelivered", "since")

    def __init__(self, subscription: _Subscription, entry: Entry) -> None:
        self._subscription = subscription
        self.since = subscription.loop.time()
        self.message = replace(entry.message, routing_key=entry.routing_key)
        self.redelivered = entry.redelivered
        self.lost = entry.lost

    @property
    def held(self) -> bool:
        return self._subscription.has(self)

    def ack(self) -> None:
        self._subscription.settle(self)

    def nack(self) -> None:
        self._subscription.give_back(self)

    def reject(self) -> None:
        self._subscription.refuse(self)


class _Subscription:
    """A consumer of one queue and what it has in hand, in the order of delivery."""

    def __init__(  # noqa: PLR0913  what a consumer is made of
        self,
        bus: MemoryBus,
        queue: MemoryQueue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        consumer_timeout: float | None,
        siblings: set[_Subscription],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._bus = bus
        self._queue = queue
        self._receive = receive
        self._prefetch = prefetch or sys.maxsize
        self._timeout = consumer_timeout
        self._alarm: asyncio.TimerHandle | None = None
        self._siblings = siblings
        self._in_hand: dict[_Delivery, Entry] = {}
        self._stopped = False
        queue.add(self)

    @property
    def taking(self) -> bool:
        return self in self._queue.consumers

    def take(self, entry: Entry) -> None:
        delivery = _Delivery(self, entry)
        self._in_hand[delivery] = entry
        if len(self._in_hand) < self._prefetch:
            self._queue.free(self)
        if self._timeout is not None and self._alarm is None:
            self._alarm = self.loop.call_later(self._timeout, self._take_back, self._timeout)
        self._receive(delivery)

    def _take_back(self, seconds: float) -> None:
        """Give back what is in hand for longer than that."""
        self._alarm = None
        now = self.loop.time()
        for delivery in tuple(self._in_hand):  # the oldest first
            if now - delivery.since < seconds:
                self._alarm = self.loop.call_at(delivery.since + seconds, self._take_back, seconds)
                return
            self.give_back(delivery)

    def has(self, delivery: _Delivery) -> bool:
        return delivery in self._in_hand

    def settle(self, delivery: _Delivery) -> Entry | None:
        """Return what is settled by this, or None if it was settled before."""
        entry = self._in_hand.pop(delivery, None)
        if entry is not None and len(self._in_hand) == self._prefetch - 1:
            self._queue.free(self)
        return entry

    def give_back(self, delivery: _Delivery) -> None:
        entry = self.settle(delivery)
        if entry is not None:
            self._bus.put_back(self._queue, entry)

    def refuse(self, delivery: _Delivery) -> None:
        entry = self.settle(delivery)
        if entry is not None:
            self._bus.dead_letter(self._queue, entry, "rejected")

    async def pause(self) -> None:
        self._queue.remove(self, self._bus.clock())

    def resume(self) -> None:
        if not self._stopped and self not in self._queue.consumers:
            self._queue.consumers.add(self)
            if len(self._in_hand) < self._prefetch:
                self._queue.free(self)

    async def stop(self) -> None:
        self._stopped = True
        await self.pause()

    async def close(self) -> None:
        await self.stop()
        self._siblings.discard(self)
        if self._alarm is not None:
            self._alarm.cancel()
        self._receive = _nobody  # a receiver that keeps its deliveries would keep itself and the bus
        for delivery in tuple(self._in_hand):
            self.give_back(delivery)
        if self._queue.passing and not self._queue.consumers:
            self._bus.delete(self._queue.name)

    def lose(self) -> None:
        for delivery in tuple(self._in_hand):
            entry = self.settle(delivery)
            if entry is not None:
                self._bus.lose(self._queue, entry)


def _nobody(_: Delivery) -> None:
    """Receive for a closed subscription, which gets nothing."""


def _closed() -> TransportClosedError:
    return TransportClosedError("The memory transport is not open: call open() first, and publish before close().")
