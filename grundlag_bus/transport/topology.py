"""The topology as data: every exchange, queue and stream of a namespace, the same on every side.

Arguments are few constants and never computed from settings, so that two programs can never disagree about them. A
changed topology gets a new VERSION, which stands in every name: old and new are then drained side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from grundlag_bus.schema.names import check_id

VERSION = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    name: str
    kind: Literal["topic", "fanout", "direct"]


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its one binding. `arguments` are the broker's, verbatim."""

    name: str
    exchange: Exchange
    routing_key: str
    arguments: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Stream:
    """An append-only log, read from its start."""

    name: str
    arguments: dict[str, Any] = field(hash=False)

    @property
    def route(self) -> Route:
        """Where to publish an entry: the default exchange, by the stream's name."""
        return Route("", self.name)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message is published to. The default exchange is ``""``."""

    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The names and arguments of one namespace."""

    namespace: str = "grundlag"

    def __post_init__(self) -> None:
        check_id("namespace", self.namespace)

    @property
    def prefix(self) -> str:
        return f"{self.namespace}.{VERSION}"

    @property
    def calls(self) -> Exchange:
        """A topic exchange, so that the broker's topic permissions can say who may call what."""
        return Exchange(f"{self.prefix}.calls", "topic")

    @property
    def replies(self) -> Exchange:
        return Exchange(f"{self.prefix}.replies", "topic")

    @property
    def dead(self) -> Exchange:
        return Exchange(f"{self.prefix}.dead", "fanout")

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return (self.calls, self.replies, self.dead)

    @property
    def dead_queue(self) -> Queue:
        """What could not be done, with the reason; no length limit.

        RabbitMQ 4.3 drops a message at its 21st unsettled delivery unless told otherwise, and -1 means one delivery on
        3.10: so the limit is one that is never reached.
        """
        arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}
        return Queue(f"{self.prefix}.dead", self.dead, "#", arguments)

    def call_queue(self, provider_id: str, lane: str) -> Queue:
        """One queue per provider and lane: a slow lane never blocks a fast one."""
        return Queue(
            f"{self.prefix}.calls.{provider_id}.{lane}",
            self.calls,
            f"{provider_id}.{lane}",
            {
                "x-queue-type": "quorum",
                "x-overflow": "reject-publish",
                "x-dead-letter-exchange": self.dead.name,
                "x-dead-letter-strategy": "at-least-once",
                # A backstop: the worker decides far below it, and tells the caller.
                "x-delivery-limit": 1000,
                # A killed cluster node's deliveries return in 3 s instead of 60 s (RabbitMQ 4.3; ignored before).
                "x-consumer-disconnected-timeout": 3000,
            },
        )

    def call_route(self, provider_id: str, lane: str) -> Route:
        return Route(self.calls.name, f"{provider_id}.{lane}")

    def mailbox(self, process: str) -> Queue:
        """Name where the replies of one calling process wait: they survive its reconnect and the broker's restart."""
        return Queue(
            f"{self.prefix}.replies.{process}",
            self.replies,
            process,
            {"x-queue-type": "classic", "x-expires": 300_000},
        )

    def reply_route(self, mailbox: str) -> Route:
        return Route(self.replies.name, mailbox)

    @property
    def manifests(self) -> Stream:
        """What every provider announced; no retention, since a quiet provider's entry must not be trimmed."""
        return Stream(f"{self.prefix}.manifests", {"x-queue-type": "stream"})
