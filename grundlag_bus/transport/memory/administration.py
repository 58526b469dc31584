"""Administration of a bus inside this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.administration import Counts, Taken
from grundlag_bus.transport.parts import Exchange

if TYPE_CHECKING:
    from grundlag_bus.transport.memory.bus import MemoryBus
    from grundlag_bus.transport.memory.queue import Entry, MemoryQueue
    from grundlag_bus.transport.parts import Queue, Stream


class MemoryAdministration:
    """See `Administration`."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._held: dict[_Hold, None] = {}

    async def take(self, queue: str, most: int) -> list[Taken]:
        await asyncio.sleep(0)  # who asks until something comes must not hold up the loop
        there = self._bus.find(queue)
        taken: list[Taken] = []
        while there is not None and len(taken) < most and (entry := there.pop()) is not None:
            hold = _Hold(self._bus, there, entry, self._held)
            self._held[hold] = None
            taken.append(Taken(entry.message, entry.death, hold))
        return taken

    async def count(self, queue: str) -> Counts | None:
        there = self._bus.find(queue)
        if there is None:
            entries = self._bus.entries(queue)
            return None if entries is None else Counts(len(entries), 0)
        return Counts(len(there), len(there.consumers))

    async def read(self, stream: Stream) -> list[bytes]:
        return self._bus.entries(stream.name) or []

    async def delete(self, part: Exchange | Queue | Stream) -> None:
        if isinstance(part, Exchange):
            self._bus.delete_exchange(part.name)
        else:
            self._bus.delete(part.name)

    async def close(self) -> None:
        for hold in tuple(self._held):
            hold.nack()


class _Hold:
    """One entry that is out of its queue."""

    def __init__(self, bus: MemoryBus, queue: MemoryQueue, entry: Entry, held: dict[_Hold, None]) -> None:
        self._bus = bus
        self._queue = queue
        self._entry = entry
        self._held = held
        self._acked = False

    @property
    def held(self) -> bool:
        return self in self._held

    async def ack(self) -> None:
        if self._held.pop(self, self) is None:
            self._acked = True
        elif not self._acked:
            raise BusUnreachableError("The message is held no more: its queue has it again.")

    def nack(self) -> None:
        if self._held.pop(self, self) is None:
            self._bus.put_back(self._queue, self._entry)
