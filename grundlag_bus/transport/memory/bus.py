"""The bus inside this process: exchanges, queues and streams that behave as RabbitMQ's.

Rules:
- A delivery that its consumer lost is counted and one that was given back unstarted is not; past `x-delivery-limit`
  the message is dead-lettered (as RabbitMQ 4.3 does).
- A queue with `x-expires` is removed when it was without a consumer for that long, which is seen at the next publish
  to it or at the next declaration of any queue: there is no timer.
- A message whose `x-message-ttl` is over is dead-lettered. Its time in the next queue begins when it was due, so that
  delays add up exactly. By the wall clock a timer of the loop sees to it; whoever sets another clock calls `tick`.
- A stream loses nothing but what is older than its `x-max-age`.
"""

from __future__ import annotations

import asyncio
import time
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from grundlag_bus.errors import PublishRefusedError, TopologyMismatchError, TransportError, UnroutableError
from grundlag_bus.schema.dead_letter import Death
from grundlag_bus.transport.memory.exchange import Binder
from grundlag_bus.transport.memory.queue import NEVER, Entry, MemoryQueue
from grundlag_bus.transport.memory.stream import MemoryStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.topology import Exchange, Ladder, Queue, Route, Stream


class MemoryBus:
    """What several `MemoryTransport` objects of one event loop share.

    It lives as long as something refers to it, and all its messages with it. clock: Unix seconds, for `x-expires` and
    `x-message-ttl`; after setting another clock than `time.time` forward, call `tick`.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exchanges: dict[str, Binder] = {}
        self._queues: dict[str, MemoryQueue] = {}
        self._streams: dict[str, MemoryStream] = {}
        self._timed: list[MemoryQueue] = []
        self._alarm: asyncio.TimerHandle | None = None

    def attach(self) -> None:
        """Tie the bus to the running loop; raises TransportError while it belongs to another one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if any(queue.consumers for queue in self._queues.values()):
            raise TransportError(
                "The memory bus has subscriptions in another event loop: close its transports there, "
                "or use a bus per loop."
            )
        self._loop = loop
        for queue in self._queues.values():
            queue.attach(loop)
        self._set_alarm()

    def declare_exchange(self, exchange: Exchange) -> Binder:
        binder = self._exchanges.get(exchange.name)
        if binder is None:
            binder = self._exchanges[exchange.name] = Binder(exchange)
        elif binder.exchange != exchange:
            there, wanted = _kind(binder.exchange), _kind(exchange)
            raise TopologyMismatchError(
                f"The exchange {exchange.name} exists as {there} and is declared as {wanted}: "
                "delete it, or use another namespace."
            )
        return binder

    def declare_ladder(self, ladder: Ladder) -> None:
        for exchange in ladder.exchanges:
            self.declare_exchange(exchange)
        for queue in ladder.queues:
            self.declare(queue)
        for bridge in ladder.bridges:
            target = self.declare_exchange(bridge.target)
            self.declare_exchange(bridge.binding.exchange).exchanges.bind(bridge.binding.routing_key, target)

    def declare(self, queue: Queue) -> MemoryQueue:
        """Return the queue, made if need be, bound to its exchanges."""
        now = self.clock()
        for unused in [known for known in self._queues.values() if known.expired(now)]:
            self._delete(unused)
        known = self._queues.get(queue.name)
        if known is None:
            known = self._queues[queue.name] = MemoryQueue(queue, asyncio.get_running_loop())
            if known.ttl is not None:
                self._timed.append(known)
        elif known.arguments != queue.arguments:
            raise _mismatch("queue", queue.name, known.arguments, queue.arguments)
        known.unused_since = now
        for binding in queue.bindings:
            self.declare_exchange(binding.exchange).queues.bind(binding.routing_key, known)
        return known

    def declare_stream(self, stream: Stream) -> MemoryStream:
        """Return the stream, made if need be, bound to its exchanges."""
        known = self._streams.get(stream.name)
        if known is None:
            known = self._streams[stream.name] = MemoryStream(stream, self.clock)
        elif known.arguments != stream.arguments:
            raise _mismatch("stream", stream.name, known.arguments, stream.arguments)
        for binding in stream.bindings:
            self.declare_exchange(binding.exchange).queues.bind(binding.routing_key, known)
        return known

    def publish(self, route: Route, message: Message) -> None:
        """Put the message into all that the route leads to; raises UnroutableError, PublishRefusedError."""
        refused = None
        queue = None
        for queue in self._targets(route.exchange, route.routing_key):
            if queue.max_length is not None and queue.is_full:
                refused = queue
            else:
                self._put(queue, Entry(message, route.routing_key))
        if queue is None:
            raise UnroutableError(
                f"No queue takes what is published to {route.exchange or 'the default exchange'} with the routing key "
                f"{route.routing_key}: start its consumer once, so that its queue exists."
            )
        if refused is not None:
            raise PublishRefusedError(f"The queue {refused.name} is full ({refused.max_length}): publish later.")

    def dead_letter(self, queue: MemoryQueue, entry: Entry, reason: str, *, at: float | None = None) -> None:
        """Move the message to where its queue's dead letters go; without such an exchange or queue it is gone.

        reason: in RabbitMQ's words; at: when that was, if not now.
        """
        if queue.dead_letter_exchange is not None:
            death = Death(reason, queue.name, self.clock() if at is None else at)
            for target in self._targets(queue.dead_letter_exchange, entry.routing_key):
                self._put(target, Entry(entry.message, entry.routing_key, death), at=at)

    def lose(self, queue: MemoryQueue, entry: Entry) -> None:
        """Take back a delivery whose consumer is gone, or dead-letter it if that happened too often."""
        entry.lost += 1
        if queue.limit is not None and entry.lost > queue.limit:
            self.dead_letter(queue, entry, "delivery_limit")
        else:
            self.put_back(queue, entry)

    def put_back(self, queue: MemoryQueue, entry: Entry) -> None:
        queue.put_back(entry)
        if queue.ttl is not None:
            self._set_alarm()

    def find(self, queue: str) -> MemoryQueue | None:
        """Return the queue of this name, if there is one."""
        there = self._queues.get(queue)
        return None if there is None or self._is_gone(there) else there

    def entries(self, stream: str) -> list[bytes] | None:
        """Return what the stream of this name holds, if there is one."""
        there = self._streams.get(stream)
        return None if there is None else there.read()

    def delete(self, name: str) -> None:
        """Delete the queue or stream of this name; its consumers get nothing more."""
        there = self._streams.pop(name, None) or self._queues.get(name)
        if there is not None:
            self._delete(there)

    def delete_exchange(self, name: str) -> None:
        there = self._exchanges.pop(name, None)
        for binder in self._exchanges.values():
            if there is not None:
                binder.exchanges.unbind(there)

    def tick(self) -> None:
        """Dead-letter what is due by the clock, in the order in which it became due."""
        now = self.clock()
        while (queue := min(self._timed, key=_due, default=None)) is not None and queue.due <= now:
            entry = queue.take_expired()
            self.dead_letter(queue, entry, "expired", at=entry.due)
        self._set_alarm()

    def _put(self, queue: MemoryQueue | MemoryStream, entry: Entry, *, at: float | None = None) -> None:
        if queue.ttl is None:
            queue.put(entry)
            return
        entry.due = (self.clock() if at is None else at) + queue.ttl
        queue.put(entry)
        if at is None:
            self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = min(map(_due, self._timed), default=NEVER)
        if due < NEVER and self._loop is not None and self.clock is time.time:
            # Weakly, since who waits for a message holds the bus, and the message itself does not.
            self._alarm = self._loop.call_later(max(due - self.clock(), 0), _ring, ref(self))

    def _targets(self, exchange: str, routing_key: str) -> list[MemoryQueue | MemoryStream]:
        if not exchange:
            if routing_key in self._streams:
                return [self._streams[routing_key]]
            queue = self.find(routing_key)
            return [] if queue is None else [queue]
        binder = self._exchanges.get(exchange)
        if binder is None:
            return []
        found, exchanges = self._ends(binder, routing_key)
        for binder in exchanges:  # which grows
            queues, others = self._ends(binder, routing_key)
            found += [queue for queue in queues if queue not in found]
            exchanges += [other for other in others if other not in exchanges]
        return found

    def _ends(self, binder: Binder, routing_key: str) -> tuple[list[MemoryQueue | MemoryStream], list[Binder]]:
        """Follow the bindings of one exchange, or else its alternate."""
        bound = tuple(binder.queues.route(routing_key))
        queues = [queue for queue in bound if queue.expires is None or not self._is_gone(queue)]
        exchanges = list(binder.exchanges.route(routing_key)) if binder.exchanges else []
        if not queues and not exchanges and binder.exchange.alternate in self._exchanges:
            exchanges.append(self._exchanges[binder.exchange.alternate])
        return queues, exchanges

    def _is_gone(self, queue: MemoryQueue | MemoryStream) -> bool:
        """Delete the queue if it has expired."""
        if isinstance(queue, MemoryStream) or not queue.expired(self.clock()):
            return False
        self._delete(queue)
        return True

    def _delete(self, queue: MemoryQueue | MemoryStream) -> None:
        self._queues.pop(queue.name, None)
        if queue in self._timed:
            self._timed.remove(queue)
        for binder in self._exchanges.values():
            binder.queues.unbind(queue)


_due = attrgetter("due")


def _ring(bus: ref[MemoryBus]) -> None:
    there = bus()
    if there is not None:
        there.tick()


def _kind(exchange: Exchange) -> str:
    return exchange.kind + (f" with the alternate {exchange.alternate}" if exchange.alternate is not None else "")


def _mismatch(kind: str, name: str, there: dict[str, Any], wanted: dict[str, Any]) -> TopologyMismatchError:
    names = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    difference = "; ".join(f"{name} is {there.get(name)!r} there and {wanted.get(name)!r} here" for name in names)
    return TopologyMismatchError(
        f"The {kind} {name} exists with other arguments ({difference}): delete it, or use another namespace."
    )


_named: WeakValueDictionary[str, MemoryBus] = WeakValueDictionary()


def named_bus(name: str) -> MemoryBus:
    """Return the bus of this name in this process. It is held by its users alone: with the last of them it is gone."""
    bus = _named.get(name)
    if bus is None:
        bus = _named[name] = MemoryBus()
    return bus
