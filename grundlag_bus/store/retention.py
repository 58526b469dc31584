"""How long records are kept, and how they are removed: in small batches, so that nothing waits long for a lock.

A record outlives whatever may still ask for it: the longest delay (12 days), a mailbox, an interrupt (30 days). A call
that is removed sooner is unknown when it comes again, and runs again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Table, and_, delete, func, or_, select

from grundlag_bus.store.tables import ENDED, MOVING, answers, calls, tombstones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grundlag_bus.store.store import Store

DAY = 24 * 3600.0
KEPT_FOR = 45 * DAY
"""Seconds, of a call since it ended or last moved."""
LEAST = 43 * DAY
"""Seconds, after which nothing asks for a record any more: an interrupt answered at the last, by a call that waits."""
BATCH = 500


@dataclass(frozen=True, slots=True)
class Old:
    """How many records are old, or were removed."""

    calls: int
    answers: int
    tombstones: int

    @property
    def total(self) -> int:
        return self.calls + self.answers + self.tombstones


async def prune(store: Store, *, older_than: float = KEPT_FOR, batch: int = BATCH) -> Old:
    """Remove what is older than that many seconds, and return how many records that were. Raises StoreAwayError.

    A call that has not ended stays for `LEAST` at least, and as long as somebody has it: it would begin anew, with a
    fence that another start of it had before.
    """
    return Old(*[await _prune(store, *each, batch) for each in _old(store, older_than)])


async def count_old(store: Store, *, older_than: float = KEPT_FOR) -> Old:
    """Count what `prune` would remove. Raises StoreAwayError."""
    async with store.reading() as connection:
        return Old(
            *[
                await connection.scalar(select(func.count()).select_from(table).where(old)) or 0
                for table, _, old in _old(store, older_than)
            ]
        )


def _old(store: Store, older_than: float) -> Iterator[tuple[Table, Column[Any], ColumnElement[bool]]]:
    before, moving_before = store.now - older_than, store.now - max(older_than, LEAST)
    # By phase in either case, as the index has it.
    ended = and_(calls.c.phase.in_(ENDED), calls.c.changed_at < before)
    still = and_(calls.c.phase.in_(MOVING), calls.c.changed_at < moving_before)
    held = func.coalesce(calls.c.lease_until, 0.0) > store.now
    yield calls, calls.c.call_id, or_(ended, and_(still, ~held))
    yield answers, answers.c.interrupt_id, answers.c.answered_at < before
    yield tombstones, tombstones.c.call_id, tombstones.c.cancelled_at < before


async def _prune(store: Store, table: Table, key: Column[Any], old: ColumnElement[bool], batch: int) -> int:
    gone = 0
    while True:
        async with store.transaction() as connection:
            # What another one prunes in this moment, it prunes alone.
            oldest = select(key).where(old).limit(batch).with_for_update(skip_locked=True)
            done = await connection.execute(delete(table).where(key.in_(oldest)))
        gone += done.rowcount
        if done.rowcount < batch:
            return gone
