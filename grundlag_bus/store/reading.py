"""What is recorded, for people: one call whole, and all of them counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, select, text

from grundlag_bus.store.retention import DAY
from grundlag_bus.store.tables import answers, calls, tombstones
from grundlag_bus.store.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.store.store import Store

AGES = (("1h", 3600.0), ("1d", DAY), ("7d", 7 * DAY), ("45d", 45 * DAY))
"""Since a call ended or last moved, at most."""

_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    "postgresql": "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(ARRAY"
    "['grundlag_calls', 'grundlag_answers', 'grundlag_tombstones']) AS name",
}
_SERVER = {
    "sqlite": "SELECT 'SQLite ' || sqlite_version()",
    "postgresql": "SELECT 'PostgreSQL ' || current_setting('server_version')",
}


@dataclass(frozen=True, slots=True)
class Known:
    """A call: its row by column (none where it was only cancelled), and what else is recorded of it.

    answers: the interrupts that it consumed; cancelled_at: Unix seconds; now: by the database's clock.
    """

    row: Mapping[str, Any] | None
    answers: tuple[str, ...]
    cancelled_at: float | None
    now: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of what is recorded.

    oldest_lease: seconds since its call was claimed; size: bytes; version: of the tables.
    """

    phases: Mapping[str, int]
    ages: Mapping[str, int]
    leased: int
    overdue: int
    oldest_lease: float | None
    letters: int
    answers: int
    tombstones: int
    size: int
    server: str
    version: str


async def find_call(store: Store, call_id: str) -> Known | None:
    """Return what is recorded of a call, None where nothing is. Raises StoreAwayError."""
    async with store.reading() as connection:
        row = (await connection.execute(select(calls).where(calls.c.call_id == call_id))).mappings().one_or_none()
        consumed = select(answers.c.interrupt_id).where(answers.c.call_id == call_id).order_by(answers.c.answered_at)
        interrupts = tuple((await connection.execute(consumed)).scalars())
        cancelled = select(tombstones.c.cancelled_at).where(tombstones.c.call_id == call_id)
        cancelled_at = await connection.scalar(cancelled)
        now = float(await connection.scalar(select(store.now)) or 0.0)
    if row is None and not interrupts and cancelled_at is None:
        return None
    return Known(None if row is None else dict(row), interrupts, cancelled_at, now)


async def count_all(store: Store) -> Statistics:
    """Count what is recorded. Reads every call. Raises StoreAwayError."""
    async with store.reading() as connection:
        age = store.now - calls.c.changed_at
        bucket = case(*((age < most, name) for name, most in AGES), else_="older")
        leased = calls.c.phase == "leased"
        lease = (
            await connection.execute(
                select(
                    func.count(),
                    func.count(case((calls.c.lease_until < store.now, 1))),
                    func.max(age),
                ).where(leased)
            )
        ).one()
        return Statistics(
            phases=await _counts(connection, calls.c.phase),
            ages=await _counts(connection, bucket),
            leased=lease[0],
            overdue=lease[1],
            oldest_lease=lease[2],
            letters=await connection.scalar(select(func.count()).where(calls.c.letter.is_not(None))) or 0,
            answers=await connection.scalar(select(func.count()).select_from(answers)) or 0,
            tombstones=await connection.scalar(select(func.count()).select_from(tombstones)) or 0,
            size=int(await connection.scalar(text(_SIZE[store.dialect])) or 0),
            server=str(await connection.scalar(text(_SERVER[store.dialect]))),
            version=str(await connection.run_sync(version_of)),
        )


async def _counts(connection: AsyncConnection, by: Any) -> dict[str, int]:
    key = by.label("key")
    rows = await connection.execute(select(key, func.count()).group_by(key))
    return {row[0]: row[1] for row in rows}
