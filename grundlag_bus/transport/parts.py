"""What a topology is made of: exchanges, queues, streams and routes, as values that a transport declares and uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Exchange:
    """alternate: the name of the exchange that gets what no binding of this one takes."""

    name: str
    kind: Literal["topic", "fanout", "direct"]
    alternate: str | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """What its owner takes from an exchange."""

    exchange: Exchange
    routing_key: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its bindings. `arguments` are the broker's, verbatim. passing: deleted with its only subscription."""

    name: str
    bindings: tuple[Binding, ...]
    arguments: dict[str, Any] = field(hash=False)
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """An append-only log, read from its start, and its bindings. `arguments` are the broker's, verbatim."""

    name: str
    arguments: dict[str, Any] = field(hash=False)
    bindings: tuple[Binding, ...] = ()

    @property
    def route(self) -> Route:
        """Where to publish an entry: the default exchange, by the stream's name."""
        return Route("", self.name)


@dataclass(frozen=True, slots=True)
class Bridge:
    """A binding of one exchange to another: the target takes what this binding takes."""

    target: Exchange
    binding: Binding


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """What is declared together, in this order, before the first publish to a route that needs it.

    The same only if it is the same object: a transport compares it for each such publish.
    """

    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bridges: tuple[Bridge, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message is published to. The default exchange is ``""``.

    needs: what the transport declares before, once; None where everything is there when a transport is open.
    """

    exchange: str
    routing_key: str
    needs: Ladder | None = field(default=None, compare=False)
