"""What has happened in a run, in the order in which it happened: a run is replayed from it and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Journal(Protocol):
    """The entries of one run, each a JSON object with its `kind`, in order. Entries are added and never changed."""

    def entries(self) -> Sequence[dict[str, Any]]:
        """Return what was written before this run, or this part of it, began."""

    async def append(self, entry: dict[str, Any]) -> None:
        """Write an entry; when this returns, it is kept. What it tells of has happened, or happens right after."""


class MemoryJournal:
    """A journal in a list."""

    def __init__(self, entries: Iterable[dict[str, Any]] = ()) -> None:
        self._entries = list(entries)

    def entries(self) -> list[dict[str, Any]]:
        return list(self._entries)

    async def append(self, entry: dict[str, Any]) -> None:
        self._entries.append(entry)
