"""The calendar's table, and what is done with it. Every function works in the transaction of the connection it gets.

Each event belongs to one user, and its id is made of the user and of what identifies it in a calendar file, so that the
same event has the same id however often it comes in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from sqlalchemy import (
    Boolean,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    case,
    delete,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.sqlite import insert

from grundlag_bus.demo.calendar_models import LISTED_EVENTS, CalendarEvent, SearchEvents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import RowMapping
    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.demo.parsed import ParsedEvent

_REPLY_TEXT = 500_000  # characters; six bytes each at worst, as JSON
_EVENTS = UUID("0b8e2f6c-59a7-4e0f-9d0b-3f3b4c8f7a52")


class _Instant(TypeDecorator[datetime]):
    """An instant, kept in UTC: SQLite knows no time zones."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  SQLAlchemy's
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  SQLAlchemy's
        return None if value is None else value.replace(tzinfo=UTC)


metadata = MetaData()
events = Table(
    "events",
    metadata,
    Column("event_id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("uid", String, nullable=False),
    Column("recurrence_id", String, nullable=False),
    Column("title", String, nullable=False),
    Column("starts_at", _Instant, nullable=False),
    Column("ends_at", _Instant, nullable=False),
    Column("all_day", Boolean, nullable=False),
    Column("time_zone", String, nullable=False),
    Column("local_start", String, nullable=False),
    Column("location", String),
    Column("description", String),
    Column("recurrence", String, nullable=False),
    Column("status", String, nullable=False),
    Column("words", String, nullable=False),
    Column("import_id", String),
    Column("version", Integer, nullable=False),
    Column("stored_at", _Instant, nullable=False),
    UniqueConstraint("owner", "uid", "recurrence_id"),
    Index("events_by_start", "owner", "starts_at"),
)

_CONTENT = (
    "title",
    "starts_at",
    "ends_at",
    "all_day",
    "time_zone",
    "local_start",
    "location",
    "description",
    "recurrence",
    "status",
    "words",
)


@dataclass(frozen=True, slots=True)
class Saved:
    """How many events were new, had another content, or were there just so."""

    created: int
    updated: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class Stored:
    """An event with its mark: the version and when it came in, which together never come again."""

    event: CalendarEvent
    mark: dict[str, Any]


def event_id_of(owner: str, event: ParsedEvent) -> str:
    """Return the id that the event has in the owner's calendar."""
    return str(uuid5(_EVENTS, json.dumps([owner, event.uid, event.recurrence_id])))


async def save(
    connection: AsyncConnection, owner: str, parsed: Sequence[ParsedEvent], *, import_id: str | None = None
) -> Saved:
    """Insert the events, or update those that the owner has already.

    The connection must hold SQLite's write lock: it counts before and after.
    """
    now = datetime.now(UTC)
    rows = [_row(owner, event) | {"import_id": import_id, "version": 1, "stored_at": now} for event in parsed]
    statement = insert(events)
    new = statement.excluded
    changed = or_(*(events.c[name].is_distinct_from(new[name]) for name in _CONTENT))
    statement = statement.on_conflict_do_update(
        index_elements=["event_id"],
        set_={name: new[name] for name in _CONTENT}
        | {
            "import_id": func.coalesce(new.import_id, events.c.import_id),
            "version": events.c.version + case((changed, 1), else_=0),
        },
    )
    count_before, versions_before = await _counts(connection, owner)
    await connection.execute(statement, rows)
    count, versions = await _counts(connection, owner)
    created = count - count_before
    updated = versions - versions_before - created
    return Saved(created, updated, len(rows) - created - updated)


async def search(
    connection: AsyncConnection, owner: str, wanted: SearchEvents, *, import_id: str | None = None
) -> tuple[list[CalendarEvent], bool]:
    """Return the owner's events that match, by start, and whether there are more.

    No more than the limit, and no more text than fits into a reply.
    """
    query = select(events).where(events.c.owner == owner).order_by(events.c.starts_at, events.c.event_id)
    if import_id is not None:
        query = query.where(events.c.import_id == import_id)
    if wanted.text:
        query = query.where(events.c.words.contains(wanted.text.casefold(), autoescape=True))
    if wanted.starts_from is not None:
        query = query.where(events.c.starts_at >= wanted.starts_from)
    if wanted.starts_before is not None:
        query = query.where(events.c.starts_at < wanted.starts_before)
    rows = (await connection.execute(query.limit(wanted.limit + 1))).mappings().all()
    texts = accumulate(len(row["words"]) + len(row["recurrence"]) for row in rows)
    fitting = [row for row, text in zip(rows, texts, strict=True) if text <= _REPLY_TEXT][: wanted.limit]
    return [_event(row) for row in fitting], len(rows) > len(fitting)


async def imported_by(connection: AsyncConnection, owner: str, import_id: str) -> list[CalendarEvent]:
    """Return the first of the events that an import brought."""
    found, _ = await search(connection, owner, SearchEvents(limit=LISTED_EVENTS), import_id=import_id)
    return found


async def find(connection: AsyncConnection, owner: str, event_id: str) -> Stored | None:
    """Return one event of the owner."""
    query = select(events).where(events.c.owner == owner, events.c.event_id == event_id)
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    return Stored(_event(row), {"version": row["version"], "storedAt": row["stored_at"].isoformat()})


async def remove(connection: AsyncConnection, owner: str, event_id: str, mark: dict[str, Any]) -> bool:
    """Delete the event if it is still the one that the mark stands for; say whether it was."""
    statement = delete(events).where(
        events.c.owner == owner,
        events.c.event_id == event_id,
        events.c.version == mark["version"],
        events.c.stored_at == datetime.fromisoformat(mark["storedAt"]),
    )
    return (await connection.execute(statement)).rowcount == 1


async def _counts(connection: AsyncConnection, owner: str) -> tuple[int, int]:
    query = select(func.count(), func.coalesce(func.sum(events.c.version), 0)).where(events.c.owner == owner)
    count, versions = (await connection.execute(query)).one()
    return count, versions


def _row(owner: str, event: ParsedEvent) -> dict[str, Any]:
    return {
        "event_id": event_id_of(owner, event),
        "owner": owner,
        "uid": event.uid,
        "recurrence_id": event.recurrence_id,
        "title": event.title,
        "starts_at": event.starts_at,
        "ends_at": event.ends_at,
        "all_day": event.all_day,
        "time_zone": event.time_zone,
        "local_start": event.local_start,
        "location": event.location,
        "description": event.description,
        "recurrence": event.recurrence,
        "status": event.status,
        "words": "\n".join((event.title, event.location or "", event.description or "")).casefold(),
    }


def _event(row: RowMapping) -> CalendarEvent:
    shown = {name: row[name] for name in CalendarEvent.model_fields if name != "recurrence"}
    return CalendarEvent.model_validate(shown | {"recurrence": row["recurrence"].splitlines()})
