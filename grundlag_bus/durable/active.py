"""A run that is driven here, now."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from grundlag_bus.durable.bell import Bell, rung
from grundlag_bus.durable.reuse import Reuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grundlag_bus.durable.journal import StoredJournal
    from grundlag_bus.durable.records import Claimed, Hold


PATIENCE = 2.0
"""Seconds for which a run waits before it is parked."""


class ParkedError(Exception):
    """The run can go no further before a reply comes."""


class ActiveRun:
    """One owner's view of a run.

    waiting: its calls without a reply, and parked_with: those when it was parked; closing: nothing begins.

    driving: has the run, until it is left; advancing: brings it on from its journal, once or again.
    """

    journal: StoredJournal
    reuse: Reuse

    def __init__(self, claimed: Claimed) -> None:
        self.claimed = claimed
        self.reuse = Reuse()
        self.waiting: set[str] = set()
        self.parked_with: frozenset[str] = frozenset()
        self.closing = claimed.cancelling
        self.driving: asyncio.Task[None] | None = None
        self.advancing: asyncio.Task[object] | None = None
        self._ended = Bell()
        self._replied_at = -PATIENCE
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def parked_late(self) -> bool:
        """Whether a reply came as the run was parked: it may be in neither what waited nor the journal."""
        return bool(self.parked_with) and asyncio.get_running_loop().time() - self._replied_at < PATIENCE

    @contextmanager
    def expecting(self, call_id: str) -> Iterator[None]:
        """Wait for a call's reply."""
        self.waiting.add(call_id)
        try:
            yield
        finally:
            self.waiting.discard(call_id)
        self._replied_at = asyncio.get_running_loop().time()
        self._ended.ring()

    @property
    def hold(self) -> Hold:
        return self.claimed.hold

    @property
    def only_waits(self) -> bool:
        """Whether it waits for replies, however long, and is at nothing else."""
        return bool(self.waiting) and not self._busy and not self.closing

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Be at something that is not to be cut short by parking."""
        self._busy += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def asleep(self) -> None:
        """Park the run, when all its calls are on their way and none ends for a while. Raises ParkedError."""
        await self._idle.wait()
        if await rung(self._ended.next, within=PATIENCE):
            return
        self.parked_with = frozenset(self.waiting)
        raise ParkedError

    def begin_anew(self, *, closing: bool = False) -> None:
        """Go on from the journal, as if the host had died."""
        self.closing = self.closing or closing
        if self.advancing is not None:
            self.advancing.cancel()


current: ContextVar[ActiveRun] = ContextVar("grundlag_run")
"""The run whose calls are made in this context."""
