"""How runs come to be, are asked to end, and are removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import delete, select, update

from grundlag_bus.durable.records import CHANNEL, add_entry, wake
from grundlag_bus.errors import RunStateError, RunUnknownError
from grundlag_bus.store.tables import interrupts, run_answers, run_calls, run_entries, runs

if TYPE_CHECKING:
    from grundlag_bus.durable.values import Kind
    from grundlag_bus.store.store import Store

_BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be. spec: all that it is started with; began: entries that its journal begins with."""

    run_id: str
    kind: Kind
    name: str
    spec: dict[str, Any]
    user_id: str | None
    answerer: str | None
    retry_of: str | None = None
    began: tuple[dict[str, Any], ...] = ()


class Starting:
    """Writes runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def start(self, new: NewRun) -> None:
        """Write a run, that is due at once; one that was started under this id before is that one.

        Raises RunStateError where that was asked for something else.
        """
        spec = orjson.dumps(new.spec, option=orjson.OPT_SORT_KEYS)
        row = {
            "run_id": new.run_id,
            "kind": new.kind,
            "name": new.name,
            "user_id": new.user_id,
            "answerer": new.answerer,
            "status": "running",
            "ready": 1,
            "due_at": 0.0,
            "cancelling": 0,
            "fence": 0,
            "entries": 0,
            "spec": spec,
            "retry_of": new.retry_of,
            "created_at": self._store.now,
            "changed_at": self._store.now,
        }
        async with self._store.transaction() as connection:
            if (await connection.execute(self._store.insert_new(runs, row))).rowcount == 1:
                started = {"kind": "run.started", "run": new.kind, "name": new.name, "userId": new.user_id}
                for entry in (started, *new.began):
                    await add_entry(connection, self._store, new.run_id, entry)
                await self._store.notify(connection, CHANNEL)
                return
            known = select(runs.c.kind, runs.c.user_id, runs.c.spec).where(runs.c.run_id == new.run_id)
            before = (await connection.execute(known)).one()
        asked, was = orjson.loads(spec), orjson.loads(before.spec)
        if (before.kind, before.user_id) != (new.kind, new.user_id) or _asks(asked) != _asks(was):
            raise RunStateError(f"Another run has the id {new.run_id!r}: give each its own.")

    async def cancel(self, run_id: str) -> None:
        """Let a run end as cancelled; nothing happens to one that has ended. Raises RunUnknownError."""
        mine = runs.c.run_id == run_id
        async with self._store.transaction() as connection:
            locked = select(runs.c.ended_at).where(mine).with_for_update()
            found = (await connection.execute(locked)).one_or_none()
            if found is None:
                raise RunUnknownError(run_id)
            if found.ended_at is None:
                await connection.execute(update(runs).where(mine).values(cancelling=1))
                await wake(connection, self._store, [run_id])

    async def prune(self, *, older_than: float) -> int:
        """Remove runs that ended so many seconds ago, with all that belongs to them, and return how many."""
        gone = 0
        while True:
            async with self._store.transaction() as connection:
                old = select(runs.c.run_id).where(runs.c.ended_at < self._store.now - older_than).limit(_BATCH)
                ids = (await connection.scalars(old.with_for_update(skip_locked=True))).all()
                for table in (run_entries, run_calls, interrupts, run_answers, runs):
                    await connection.execute(delete(table).where(table.c.run_id.in_(ids)))
            gone += len(ids)
            if len(ids) < _BATCH:
                return gone


def _asks(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name != "versions"}
