"""What a namespace has on the broker. AMQP cannot list queues: they are known by what was ever announced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.manifest import Announcement
from grundlag_bus.transport.parts import Exchange, Queue, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.transport import Administration
    from grundlag_bus.transport.administration import Counts
    from grundlag_bus.transport.topology import Topology


@dataclass(frozen=True, slots=True)
class Inventory:
    """queues: those that are there; exchanges: all that may be, since nobody tells whether one is."""

    topology: Topology
    queues: tuple[tuple[Queue | Stream, Counts], ...]
    exchanges: tuple[Exchange, ...]

    @property
    def used(self) -> tuple[str, ...]:
        """Name the queues, not the streams, in which something waits or which somebody consumes."""
        return tuple(
            _told(part, counts)
            for part, counts in self.queues
            if isinstance(part, Queue) and (counts.messages or counts.consumers)
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Name every queue and stream that is there."""
        return tuple(_told(part, counts) for part, counts in self.queues)

    @property
    def in_order(self) -> tuple[Queue | Stream | Exchange, ...]:
        """List what is to be deleted: first the way in, last what tells which queues there are, and that there are any.

        So no call gets in meanwhile, and a deletion that was interrupted can be repeated.
        """
        calls, last = self.topology.calls, (self.topology.manifests, self.topology.dead_queue)
        queues = [part for part, _ in self.queues if part not in last]
        others = [exchange for exchange in self.exchanges if exchange != calls]
        return (calls, *queues, *others, *last)

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": self.topology.namespace,
            "queues": [
                {"name": part.name, "messages": counts.messages, "consumers": counts.consumers}
                for part, counts in self.queues
            ],
            "exchanges": [exchange.name for exchange in self.exchanges],
        }


def _told(part: Queue | Stream, counts: Counts) -> str:
    return f"{part.name} (messages: {counts.messages}, consumers: {counts.consumers})"


async def take_inventory(administration: Administration, topology: Topology) -> Inventory:
    """Look for everything that the namespace may have."""
    entries: list[bytes] = []
    if await administration.count(topology.manifests.name) is not None:
        entries = await administration.read(topology.manifests)
    parts: list[Queue | Stream] = [topology.call_queue(provider, lane) for provider, lane in announced(entries)]
    parts += (*topology.ladder.queues, topology.dead_queue, topology.cancels, topology.starts, topology.manifests)
    counted = [(part, await administration.count(part.name)) for part in parts]
    return Inventory(
        topology,
        tuple((part, counts) for part, counts in counted if counts is not None),
        (*topology.exchanges, *topology.ladder.exchanges),
    )


def announced(entries: Iterable[bytes]) -> list[tuple[str, str]]:
    """List every provider and lane that any announcement names, also one that does not count any more."""
    found: set[tuple[str, str]] = set()
    for entry in entries:
        try:
            told = Announcement.decode(entry)
        except EnvelopeError:
            continue
        found.add((told.provider_id, "main"))
        if told.provider is not None:
            found.update((told.provider_id, action.lane) for action in told.provider.actions)
    return sorted(found)
