"""Which queues, streams and other exchanges an exchange leads a routing key to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from grundlag_bus.transport.memory.queue import MemoryQueue
    from grundlag_bus.transport.memory.stream import MemoryStream
    from grundlag_bus.transport.topology import Exchange

End = TypeVar("End")


class Bindings(Generic[End]):
    """What is bound to one exchange."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._exact: dict[str, dict[End, None]] = {}
        self._patterns: dict[str, dict[End, None]] = {}

    def bind(self, routing_key: str, end: End) -> None:
        words = routing_key.split(".")
        if self._kind == "topic" and ("*" in words or "#" in words):
            self._patterns.setdefault(routing_key, {})[end] = None
        else:
            self._exact.setdefault("" if self._kind == "fanout" else routing_key, {})[end] = None

    def __bool__(self) -> bool:
        return bool(self._exact or self._patterns)

    def unbind(self, end: End) -> None:
        for bindings in (self._exact, self._patterns):
            for routing_key, ends in list(bindings.items()):
                ends.pop(end, None)
                if not ends:
                    del bindings[routing_key]

    def route(self, routing_key: str) -> dict[End, None]:
        """Every end once, however many of its bindings match."""
        found = self._exact.get("" if self._kind == "fanout" else routing_key, {})
        for binding_key, ends in self._patterns.items():
            if topic_matches(binding_key, routing_key):
                found = found | ends
        return found


class Binder:
    """An exchange with the queues, streams and exchanges that are bound to it."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.queues: Bindings[MemoryQueue | MemoryStream] = Bindings(exchange.kind)
        self.exchanges: Bindings[Binder] = Bindings(exchange.kind)


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
