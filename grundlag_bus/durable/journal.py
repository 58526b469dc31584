"""The journal of a run in the store, for the one who has the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from grundlag_bus.durable.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.durable.records import Claimed, RunRecords
    from grundlag_bus.durable.writes import Writes


class Written(Protocol):
    """Called when an entry is written. asks: whether it is a question."""

    def __call__(self, *, asks: bool) -> None: ...


OF_RUN = "run."
"""What the kinds of entries begin with that are about the run as a whole."""


class StoredJournal:
    """See `Journal`. position: the last entry that is known here; behind: whether others wrote in between.

    entries: as they were read. Raises orjson.JSONDecodeError for one that is damaged.
    """

    def __init__(
        self,
        records: RunRecords,
        writes: Writes,
        claimed: Claimed,
        loaded: tuple[int, Iterable[bytes]],
        written: Written,
    ) -> None:
        self._records = records
        self._writes = writes
        self._claimed = claimed
        self._written = written
        self._turn = asyncio.Lock()
        self._functions: dict[int, str] = {}
        self._entries: list[dict[str, Any]] = []
        self.position, entries = loaded
        self.behind = False
        for encoded in entries:
            entry = orjson.loads(encoded)
            if not str(entry["kind"]).startswith(OF_RUN):
                self._take(entry)

    def entries(self) -> list[dict[str, Any]]:
        return list(self._entries)

    async def append(self, entry: dict[str, Any]) -> None:
        """Write an entry. Raises LeaseLostError, StoreAwayError: then it may be written, and the run is to be left."""
        async with self._turn:
            function = self._functions.get(entry.get("call", -1), "")
            write = self._records.append(self._claimed.hold, entry, function=function, answerer=self._claimed.answerer)
            position = await self._writes.do(write)
            self.behind = self.behind or position != self.position + 1
            self.position = position
            self._take(entry)
        self._written(asks=entry["kind"] == "settled" and entry["outcome"]["status"] == "interrupted")
        reach(f"entry.{entry['kind']}")

    def _take(self, entry: dict[str, Any]) -> None:
        self._entries.append(entry)
        if entry["kind"] == "called":
            self._functions[entry["call"]] = entry["function"]
