"""Goes through the dead queue. Every letter is held until it is settled or the command ends."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.cli.administration import check_namespace
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.dead_letter import Letter, read_dead_letter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grundlag_bus.cli.dead.filters import Filters
    from grundlag_bus.transport import Administration
    from grundlag_bus.transport.administration import Hold
    from grundlag_bus.transport.topology import Topology

_BATCH = 32
"""Letters that are in memory at once; one may have some megabytes."""
_NAMED = 2
"""With so many ids that begin alike it is known that they do."""


@dataclass(frozen=True, slots=True)
class Found:
    letter: Letter
    hold: Hold


async def find(administration: Administration, topology: Topology, filters: Filters) -> AsyncGenerator[Found]:
    """Give the letters that fit, oldest first; with ids only after all were looked at.

    Raises ConfigurationError where an id names none or several.
    """
    go_through = _named if filters.ids else _all
    count = 0
    async with aclosing(go_through(administration, topology, filters)) as letters:
        async for found in letters:
            yield found
            count += 1
            if count == filters.limit:
                return


async def _all(administration: Administration, topology: Topology, filters: Filters) -> AsyncGenerator[Found]:
    queue = topology.dead_queue.name
    batch = await administration.take(queue, _BATCH)
    if not batch:
        await check_namespace(administration, topology)
    while batch:
        for taken in batch:
            letter = read_dead_letter(taken.message.body, taken.death)
            if filters.take(letter):
                yield Found(letter, taken.hold)
        batch = await administration.take(queue, _BATCH)


async def _named(administration: Administration, topology: Topology, filters: Filters) -> AsyncGenerator[Found]:
    by_given: dict[str, dict[str, list[Found]]] = {given: {} for given in filters.ids}
    async for found in _all(administration, topology, filters):
        id = found.letter.id  # noqa: A001  the word
        for given, by_id in by_given.items():
            if id.startswith(given) and (id in by_id or len(by_id) < _NAMED or id == given):
                by_id.setdefault(id, []).append(found)
    told: set[str] = set()
    for given, by_id in by_given.items():
        id = _the_one(given, by_id)  # noqa: A001  the word
        for found in by_id[id] if id not in told else ():
            yield found
        told.add(id)


def _the_one(given: str, by_id: dict[str, list[Found]]) -> str:
    """Return the id that is meant: the very one, or the only one that begins so."""
    if given in by_id or len(by_id) == 1:
        return given if given in by_id else next(iter(by_id))
    if not by_id:
        raise ConfigurationError(f"No dead letter fits {given!r}: see `grundlag-bus dead list`.")
    raise ConfigurationError(f"Several ids begin with {given!r} ({', '.join(by_id)}): give more of it.")
