"""The bus inside this process: exchanges, queues and streams that behave as RabbitMQ's.

Rules:
- A delivery that its consumer lost is counted and one that was given back unstarted is not; past `x-delivery-limit`
  the message is dead-lettered (as RabbitMQ 4.3 does).
- A queue with `x-expires` is removed when it was without a consumer for that long, which is seen at the next publish
  to it or at the next declaration of any queue: there is no timer.
- A stream is never trimmed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from grundlag_bus.errors import PublishRefusedError, TopologyMismatchError, TransportError, UnroutableError
from grundlag_bus.transport.memory.queue import Entry, MemoryQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.topology import Exchange, Queue, Route, Stream


class _Binder:
    """The bindings of one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self.kind = exchange.kind
        self._exact: dict[str, dict[MemoryQueue, None]] = {}
        self._patterns: dict[str, dict[MemoryQueue, None]] = {}

    def bind(self, routing_key: str, queue: MemoryQueue) -> None:
        words = routing_key.split(".")
        if self.kind == "topic" and ("*" in words or "#" in words):
            self._patterns.setdefault(routing_key, {})[queue] = None
        else:
            self._exact.setdefault("" if self.kind == "fanout" else routing_key, {})[queue] = None

    def unbind(self, queue: MemoryQueue) -> None:
        for bindings in (self._exact, self._patterns):
            for routing_key, queues in list(bindings.items()):
                queues.pop(queue, None)
                if not queues:
                    del bindings[routing_key]

    def route(self, routing_key: str) -> dict[MemoryQueue, None]:
        """Every queue once, however many of its bindings match."""
        found = self._exact.get("" if self.kind == "fanout" else routing_key, {})
        for binding_key, queues in self._patterns.items():
            if topic_matches(binding_key, routing_key):
                found = found | queues
        return found


def topic_matches(binding_key: str, routing_key: str) -> bool:
    """Compare word by word: `*` is one word, `#` any number. Takes binding words times routing words at most."""
    words = routing_key.split(".") if routing_key else []
    places = {0}  # how many words the binding's words so far can stand for
    for wanted in binding_key.split("."):
        if wanted == "#":
            places = set(range(min(places, default=len(words) + 1), len(words) + 1))
        else:
            places = {place + 1 for place in places if place < len(words) and wanted in ("*", words[place])}
    return len(words) in places


class MemoryBus:
    """What several `MemoryTransport` objects of one event loop share.

    It lives as long as something refers to it, and all its messages with it. clock: Unix seconds, for `x-expires`.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exchanges: dict[str, _Binder] = {}
        self._queues: dict[str, MemoryQueue] = {}
        self._streams: dict[str, list[bytes]] = {}

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

    def declare_exchange(self, exchange: Exchange) -> None:
        binder = self._exchanges.setdefault(exchange.name, _Binder(exchange))
        if binder.kind != exchange.kind:
            raise TopologyMismatchError(
                f"The exchange {exchange.name} exists as {binder.kind} and is declared as {exchange.kind}: "
                "delete it, or use another namespace."
            )

    def declare(self, queue: Queue) -> MemoryQueue:
        """Return the queue, made if need be, bound to its exchange."""
        now = self.clock()
        for unused in [known for known in self._queues.values() if known.expired(now)]:
            self._delete(unused)
        known = self._queues.get(queue.name)
        if known is None:
            known = self._queues[queue.name] = MemoryQueue(queue, asyncio.get_running_loop())
        elif known.arguments != queue.arguments:
            raise TopologyMismatchError(
                f"The queue {queue.name} exists with other arguments "
                f"({_difference(known.arguments, queue.arguments)}): delete it, or use another namespace."
            )
        known.unused_since = now
        self.declare_exchange(queue.exchange)
        self._exchanges[queue.exchange.name].bind(queue.routing_key, known)
        return known

    def declare_stream(self, stream: Stream) -> list[bytes]:
        return self._streams.setdefault(stream.name, [b"{}"])

    def publish(self, route: Route, message: Message) -> None:
        """Put the message into every queue that the route leads to; raises UnroutableError, PublishRefusedError."""
        if not route.exchange and route.routing_key in self._streams:
            self._streams[route.routing_key].append(message.body)
            return
        refused = None
        queue = None
        for queue in self._targets(route.exchange, route.routing_key):
            if queue.max_length is not None and queue.is_full:
                refused = queue
            else:
                queue.put(Entry(message, route.routing_key))
        if queue is None:
            raise UnroutableError(
                f"No queue takes what is published to {route.exchange or 'the default exchange'} with the routing key "
                f"{route.routing_key}: start its consumer once, so that its queue exists."
            )
        if refused is not None:
            raise PublishRefusedError(f"The queue {refused.name} is full ({refused.max_length}): publish later.")

    def dead_letter(self, queue: MemoryQueue, entry: Entry) -> None:
        """Move the message to where its queue's dead letters go; without such an exchange or queue it is gone."""
        if queue.dead_letter_exchange is not None:
            for target in self._targets(queue.dead_letter_exchange, entry.routing_key):
                target.put(Entry(entry.message, entry.routing_key))

    def lose(self, queue: MemoryQueue, entry: Entry) -> None:
        """Take back a delivery whose consumer is gone, or dead-letter it if that happened too often."""
        entry.lost += 1
        if queue.limit is not None and entry.lost > queue.limit:
            self.dead_letter(queue, entry)
        else:
            queue.put_back(entry)

    def _targets(self, exchange: str, routing_key: str) -> Iterator[MemoryQueue]:
        if exchange:
            binder = self._exchanges.get(exchange)
            found = binder.route(routing_key) if binder is not None else {}
        else:
            queue = self._queues.get(routing_key)
            found = {queue: None} if queue is not None else {}
        for queue in tuple(found):
            if queue.expires is not None and queue.expired(self.clock()):
                self._delete(queue)
            else:
                yield queue

    def _delete(self, queue: MemoryQueue) -> None:
        del self._queues[queue.name]
        for binder in self._exchanges.values():
            binder.unbind(queue)


def _difference(there: dict[str, Any], wanted: dict[str, Any]) -> str:
    names = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
    return "; ".join(f"{name} is {there.get(name)!r} there and {wanted.get(name)!r} here" for name in names)


_named: WeakValueDictionary[str, MemoryBus] = WeakValueDictionary()


def named_bus(name: str) -> MemoryBus:
    """Return the bus of this name in this process. It is held by its users alone: with the last of them it is gone."""
    bus = _named.get(name)
    if bus is None:
        bus = _named[name] = MemoryBus()
    return bus
