"""The topology as data: every exchange, queue and stream of a namespace, the same on every side.

Arguments are few constants and never computed from settings, so that two programs can never disagree about them. A
changed topology gets a new VERSION, which stands in every name: old and new are then drained side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from grundlag_bus.schema.names import check_id
from grundlag_bus.transport import ladder
from grundlag_bus.transport.parts import Binding, Exchange, Ladder, Queue, Route, Stream

__all__ = ["VERSION", "Binding", "Exchange", "Ladder", "Queue", "Route", "Stream", "Topology"]

VERSION = 1

_STORE_MAILBOX_EXPIRES = 400 * 24 * 3_600_000
"""Milliseconds: longer than a run may wait for a person, and than anybody leaves a store alone that is still wanted."""


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
    def outlet(self) -> Exchange:
        """Where delayed messages come out. What no queue takes there is dead, and holds up nothing behind it."""
        return Exchange(f"{self.prefix}.delayed", "topic", alternate=self.dead.name)

    @property
    def control(self) -> Exchange:
        """What all workers hear: cancels and pings. A topic, so that one publish reaches them and the stream."""
        return Exchange(f"{self.prefix}.control", "topic")

    @property
    def events(self) -> Exchange:
        return Exchange(f"{self.prefix}.events", "topic")

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Declare these in this order whenever a transport is opened."""
        return (self.calls, self.replies, self.dead, self.outlet, self.control, self.events)

    @property
    def ladder(self) -> Ladder:
        """What delays messages, declared on first use."""
        return ladder.build(self.prefix, self.outlet)

    @property
    def dead_route(self) -> Route:
        return Route(self.dead.name, "dead")

    @property
    def dead_queue(self) -> Queue:
        """What could not be done, with the reason; no length limit.

        RabbitMQ 4.3 drops a message at its 21st unsettled delivery unless told otherwise, and -1 means one delivery on
        3.10: so the limit is one that is never reached.
        """
        arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}
        return Queue(f"{self.prefix}.dead", (Binding(self.dead, "#"),), arguments)

    def call_queue(self, provider_id: str, lane: str) -> Queue:
        """One queue per provider and lane: a slow lane never blocks a fast one."""
        routing_key = f"{provider_id}.{lane}"
        return Queue(
            f"{self.prefix}.calls.{routing_key}",
            (Binding(self.calls, routing_key), ladder.leaving(self.outlet, routing_key)),
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

    def delayed_call_route(self, provider_id: str, lane: str, seconds: float) -> Route:
        """Lead to a call queue `seconds` later, rounded up. Now, where that is 0 or less.

        Whether such a queue exists is not known until then. Raises ConfigurationError over `ladder.LONGEST`.
        """
        route, delay = self.call_route(provider_id, lane), ladder.whole_seconds(seconds)
        return ladder.delayed(route, delay, self.prefix, self.outlet) if delay else route

    def mailbox(self, process: str) -> Queue:
        """Name where the replies of one calling process wait: they survive its reconnect and the broker's restart."""
        return Queue(
            f"{self.prefix}.replies.{process}",
            (Binding(self.replies, process),),
            _passing(300_000),
            passing=True,
        )

    def store_mailbox(self, store_id: str) -> Queue:
        """Name where the replies of all runs of one store wait, whichever host started them, and none runs."""
        return Queue(
            f"{self.prefix}.replies.{store_id}",
            (Binding(self.replies, store_id),),
            {"x-queue-type": "quorum", "x-expires": _STORE_MAILBOX_EXPIRES, "x-delivery-limit": 1_000_000},
        )

    def reply_route(self, mailbox: str) -> Route:
        return Route(self.replies.name, mailbox)

    @property
    def manifests(self) -> Stream:
        """What every provider announced; no retention, since a quiet provider's entry must not be trimmed."""
        return Stream(f"{self.prefix}.manifests", {"x-queue-type": "stream"})

    def control_queue(self, name: str) -> Queue:
        """Name where one worker hears what is said to all; it is gone a minute after the worker."""
        return Queue(f"{self.prefix}.control.{name}", (Binding(self.control, "#"),), _passing(60_000), passing=True)

    def control_route(self, kind: Literal["cancel", "ping"]) -> Route:
        return Route(self.control.name, kind)

    @property
    def cancels(self) -> Stream:
        """What was cancelled within a day, for who starts later.

        Small segments, since the broker drops an old one as a whole, and never the newest.
        """
        arguments = {"x-queue-type": "stream", "x-max-age": "1D", "x-stream-max-segment-size-bytes": 1_000_000}
        return Stream(f"{self.prefix}.cancels", arguments, (Binding(self.control, "cancel"),))

    @property
    def starts(self) -> Stream:
        """Which calls were started with nothing beside them; declared on first use. A week is longer than an outage."""
        arguments = {"x-queue-type": "stream", "x-max-age": "7D", "x-stream-max-segment-size-bytes": 1_000_000}
        return Stream(f"{self.prefix}.starts", arguments)

    def event_queue(self, name: str, pattern: str) -> Queue:
        """Name where one listener hears the events that match, for example ``calendar.*``."""
        return Queue(f"{self.prefix}.events.{name}", (Binding(self.events, pattern),), _passing(60_000), passing=True)

    def event_route(self, provider_id: str, event_id: str) -> Route:
        return Route(self.events.name, f"{provider_id}.{event_id}")


def _passing(milliseconds: int) -> dict[str, Any]:
    """Tell the arguments of a queue that is gone so long after its only consumer."""
    return {"x-queue-type": "classic", "x-expires": milliseconds}
