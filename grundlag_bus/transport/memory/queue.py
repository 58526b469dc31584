"""One queue in memory.

Rules:
- Nothing is handed to a consumer within a publish or a settle: a queue hands out in a later turn of the loop, in turns
  between the consumers that have room.
- What comes back goes before what was never handed out, in the order in which it came back (as a quorum queue does).
- A queue holds its messages until they are settled or their `x-message-ttl` is over, and has no bound but
  `x-max-length`. What is in a consumer's hand does not expire.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncio

    from grundlag_bus.schema.dead_letter import Death
    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.topology import Queue

_PER_TURN = 64
"""How many deliveries a queue hands out before the loop's other callbacks have their turn."""

_QUORUM_DELIVERY_LIMIT = 20
"""What RabbitMQ 4.3 takes for a quorum queue that says nothing."""

_HONOURED = {
    "x-dead-letter-exchange",
    "x-delivery-limit",
    "x-expires",
    "x-max-length",
    "x-message-ttl",
    "x-overflow",
    "x-queue-type",
}
_WITHOUT_MEANING_HERE = {"x-consumer-disconnected-timeout", "x-dead-letter-strategy"}


NEVER = float("inf")


class Consumer(Protocol):
    """Whom a queue hands its messages to: one each time that it said `free`."""

    def take(self, entry: Entry) -> None: ...


class Entry:
    """One message in one queue."""

    __slots__ = ("death", "due", "lost", "message", "redelivered", "routing_key")

    def __init__(self, message: Message, routing_key: str, death: Death | None = None) -> None:
        self.message = message
        self.death = death
        self.routing_key = routing_key
        self.redelivered = False
        self.lost = 0
        self.due = NEVER


class MemoryQueue:
    """The messages of one queue, and the consumers that share them."""

    def __init__(self, queue: Queue, loop: asyncio.AbstractEventLoop) -> None:
        arguments = queue.arguments
        if unknown := arguments.keys() - _HONOURED - _WITHOUT_MEANING_HERE:
            raise ConfigurationError(
                f"The queue {queue.name} has arguments that the memory bus does not know: "
                f"leave out {', '.join(sorted(unknown))}, or use RabbitMQ."
            )
        if "x-max-length" in arguments and arguments.get("x-overflow") != "reject-publish":
            raise ConfigurationError(
                f"The queue {queue.name} has x-max-length and would drop messages, which the memory bus does not do: "
                "add x-overflow reject-publish."
            )
        quorum = arguments.get("x-queue-type") == "quorum"
        limit: int = arguments.get("x-delivery-limit", _QUORUM_DELIVERY_LIMIT) if quorum else -1
        self.name = queue.name
        self.arguments = dict(arguments)
        self.passing = queue.passing
        self._loop = loop
        self.limit: int | None = limit if limit >= 0 else None
        self.max_length: int | None = arguments.get("x-max-length")
        self.dead_letter_exchange: str | None = arguments.get("x-dead-letter-exchange")
        self.expires: float | None = arguments["x-expires"] / 1000 if "x-expires" in arguments else None
        self.ttl: float | None = arguments["x-message-ttl"] / 1000 if "x-message-ttl" in arguments else None
        self.unused_since = 0.0
        self.consumers: set[Consumer] = set()
        self._free: deque[Consumer] = deque()
        self._returned: deque[Entry] = deque()
        self._ready: deque[Entry] = deque()
        self._woken = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand out in this loop from now on; the one before may have ended before its turn came."""
        self._loop = loop
        self._woken = False

    def __len__(self) -> int:
        """Messages that wait, without those in hand."""
        return len(self._returned) + len(self._ready)

    @property
    def is_full(self) -> bool:
        return self.max_length is not None and len(self) >= self.max_length

    def expired(self, now: float) -> bool:
        return self.expires is not None and not self.consumers and now - self.unused_since >= self.expires

    @property
    def due(self) -> float:
        """When the first message that waits here expires."""
        return min((waiting[0].due for waiting in (self._returned, self._ready) if waiting), default=NEVER)

    def take_expired(self) -> Entry:
        """Remove the message that is due first."""
        returned, ready = self._returned, self._ready
        first = returned if returned and (not ready or returned[0].due <= ready[0].due) else ready
        return first.popleft()

    def pop(self) -> Entry | None:
        """Remove what would be handed out next."""
        waiting = self._returned or self._ready
        return waiting.popleft() if waiting else None

    def put(self, entry: Entry) -> None:
        self._ready.append(entry)
        self._wake()

    def put_back(self, entry: Entry) -> None:
        entry.redelivered = True
        self._returned.append(entry)
        self._wake()

    def add(self, consumer: Consumer) -> None:
        self.consumers.add(consumer)
        self.free(consumer)

    def remove(self, consumer: Consumer, now: float) -> None:
        """Hand this consumer nothing more; what it has in hand stays its own."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self.unused_since = now
            if consumer in self._free:
                self._free.remove(consumer)

    def free(self, consumer: Consumer) -> None:
        """Note that this consumer, which had no room, has room again."""
        if consumer in self.consumers:
            self._free.append(consumer)
            self._wake()

    def _wake(self) -> None:
        if not self._woken and self._free and (self._ready or self._returned):
            self._woken = True
            self._loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        free, returned, ready = self._free, self._returned, self._ready
        try:
            for _ in range(min(_PER_TURN, len(returned) + len(ready))):
                if not free:
                    break
                consumer = free.popleft()
                entry = returned.popleft() if returned else ready.popleft()
                consumer.take(entry)
        finally:
            self._woken = False
            self._wake()
