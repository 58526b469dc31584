"""Looks at runs, what they ask, and what has happened in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import select

from grundlag_bus.errors import InterruptUnknownError, RunUnknownError
from grundlag_bus.schema.run import OpenInterrupt, Run, RunEntry
from grundlag_bus.store.tables import interrupts, run_entries, runs

if TYPE_CHECKING:
    from sqlalchemy import Row

    from grundlag_bus.schema.run import Status
    from grundlag_bus.store.store import Store

PAGE = 100


class Reading:
    """Reads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, run_id: str) -> Run:
        """Return a run. Raises RunUnknownError."""
        async with self._store.transaction() as connection:
            row = (await connection.execute(select(runs).where(runs.c.run_id == run_id))).one_or_none()
        if row is None:
            raise RunUnknownError(run_id)
        return _run(row)

    async def list(
        self, *, user_id: str | None, status: Status | None, before: float | None, limit: int, anybody: bool
    ) -> tuple[Run, ...]:
        """List runs, the newest first."""
        read = select(runs).order_by(runs.c.created_at.desc(), runs.c.run_id).limit(limit)
        if user_id is not None or not anybody:
            read = read.where(runs.c.user_id == user_id)
        if status is not None:
            read = read.where(runs.c.status == status)
        if before is not None:
            read = read.where(runs.c.created_at < before)
        async with self._store.transaction() as connection:
            return tuple(_run(row) for row in await connection.execute(read))

    async def pending(
        self, *, answerer: str | None, run_id: str | None, limit: int, anybody: bool
    ) -> tuple[OpenInterrupt, ...]:
        """List what is asked, the oldest first."""
        read = select(interrupts).where(interrupts.c.status == "pending").order_by(interrupts.c.asked_at).limit(limit)
        if answerer is not None or not anybody:
            read = read.where((interrupts.c.answerer == answerer) | interrupts.c.answerer.is_(None))
        if run_id is not None:
            read = read.where(interrupts.c.run_id == run_id)
        async with self._store.transaction() as connection:
            return tuple(interrupt_of(row) for row in await connection.execute(read))

    async def interrupt(self, interrupt_id: str) -> OpenInterrupt:
        """Return a question. Raises InterruptUnknownError."""
        read = select(interrupts).where(interrupts.c.interrupt_id == interrupt_id)
        async with self._store.transaction() as connection:
            row = (await connection.execute(read)).one_or_none()
        if row is None:
            raise InterruptUnknownError([interrupt_id], [])
        return interrupt_of(row)

    async def entries(self, run_id: str, *, after: int = 0, limit: int | None = PAGE) -> tuple[RunEntry, ...]:
        """Read from a journal, in order."""
        mine = (run_entries.c.run_id == run_id, run_entries.c.position > after)
        read = select(run_entries.c.position, run_entries.c.entry, run_entries.c.written_at)
        async with self._store.transaction() as connection:
            rows = (await connection.execute(read.where(*mine).order_by(run_entries.c.position).limit(limit))).all()
        return tuple(RunEntry(row.position, orjson.loads(row.entry), row.written_at) for row in rows)


def _run(row: Row[Any]) -> Run:
    outcome: dict[str, Any] = (
        {"value": None, "stdout": "", "error": None} if row.outcome is None else orjson.loads(row.outcome)
    )
    spec = orjson.loads(row.spec)
    return Run(
        run_id=row.run_id,
        kind=row.kind,
        name=row.name,
        status=row.status,
        created_at=row.created_at,
        changed_at=row.changed_at,
        user_id=row.user_id,
        answerer=row.answerer,
        ended_at=row.ended_at,
        value=outcome["value"],
        stdout=outcome["stdout"],
        error=outcome["error"],
        versions=spec.pop("versions", None),
        spec=spec,
        retry_of=row.retry_of,
    )


def interrupt_of(row: Row[Any]) -> OpenInterrupt:
    content = orjson.loads(row.content)
    return OpenInterrupt(
        interrupt_id=row.interrupt_id,
        run_id=row.run_id,
        function=row.function,
        message=row.message,
        data=content["data"],
        input=content["input"],
        answer_schema=content["answerSchema"],
        status=row.status,
        asked_at=row.asked_at,
        expires_at=row.expires_at,
        answerer=row.answerer,
        answered_by=row.answered_by,
    )
