"""How long records are kept, and how they are removed: in small batches, so that nothing waits long for a lock.

A record outlives whatever may still ask for it: the longest delay (12 days), a mailbox, an interrupt (30 days).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Table, delete, select

from grundlag_bus.store.tables import answers, calls, tombstones

if TYPE_CHECKING:
    from grundlag_bus.store.store import Store

DAY = 24 * 3600.0
KEPT_FOR = 45 * DAY
"""Seconds, of a call since it ended or last moved."""
BATCH = 500


async def prune(store: Store, *, older_than: float = KEPT_FOR, batch: int = BATCH) -> int:
    """Remove what is older than that many seconds, and return how many records that were. Raises StoreAwayError."""
    before = store.now - older_than
    # A call that moves no more has no outcome to be asked for either: its deadline passed long ago.
    gone = 0
    for table, key, condition in (
        (calls, calls.c.call_id, calls.c.changed_at < before),
        (answers, answers.c.interrupt_id, answers.c.answered_at < before),
        (tombstones, tombstones.c.call_id, tombstones.c.cancelled_at < before),
    ):
        gone += await _prune(store, table, key, condition, batch)
    return gone


async def _prune(store: Store, table: Table, key: Column[Any], old: ColumnElement[bool], batch: int) -> int:
    gone = 0
    while True:
        async with store.transaction() as connection:
            oldest = select(key).where(old).limit(batch)
            done = await connection.execute(delete(table).where(key.in_(oldest)))
        gone += done.rowcount
        if done.rowcount < batch:
            return gone
