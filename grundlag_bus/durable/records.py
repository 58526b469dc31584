"""What the owner of a run writes, each a transaction of its own. All raise StoreAwayError.

Whatever is written of a run is written with its row locked first, by its owner's fence: who has lost it writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import case, exists, func, insert, null, select, update

from grundlag_bus.schema.fields import instant_from_json
from grundlag_bus.store.tables import interrupts, run_calls, run_entries, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.durable.outcome import Outcome
    from grundlag_bus.store.store import Store

CHANNEL = "grundlag_runs"
"""On which PostgreSQL tells other hosts that something has changed."""


class LeftError(BaseException):
    """The run is to be left as it is, for whoever has it next.

    No Exception, since what an action raises becomes an outcome, and this says nothing of the call.
    """


class LeaseLostError(LeftError):
    """The run is another host's now, or has ended."""


@dataclass(frozen=True, slots=True)
class Hold:
    """By what a run is an owner's."""

    run_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run that was taken."""

    hold: Hold
    kind: str
    user_id: str | None
    answerer: str | None
    spec: bytes
    cancelling: bool
    retry_of: str | None


class RunRecords:
    """Writes them. lease: seconds that a run is its owner's without a word."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease

    async def claim(self, owner: str, room: int, kinds: Collection[str]) -> list[Claimed]:
        """Take what is due of these kinds, at most so many."""
        due = select(runs.c.run_id).where(runs.c.due_at <= self._store.now, runs.c.kind.in_(kinds))
        due = due.order_by(runs.c.due_at).limit(room)
        async with self._store.transaction() as connection:
            ids = (await connection.scalars(due.with_for_update(skip_locked=True))).all()
            if not ids:
                return []
            values = {"owner": owner, "fence": runs.c.fence + 1, "due_at": self._store.now + self._lease, "ready": 0}
            names = ("run_id", "fence", "kind", "user_id", "answerer", "spec", "cancelling", "retry_of")
            taken = update(runs).where(runs.c.run_id.in_(ids)).values(values)
            rows = (await connection.execute(taken.returning(*(runs.c[name] for name in names)))).all()
        return [
            Claimed(
                Hold(row.run_id, row.fence),
                row.kind,
                row.user_id,
                row.answerer,
                row.spec,
                bool(row.cancelling),
                row.retry_of,
            )
            for row in rows
        ]

    async def renew(self, held: Sequence[Hold]) -> dict[Hold, tuple[bool, bool]]:
        """Hold on to runs, and return for those that could be whether they are ready, and are to be cancelled."""
        renewed = {}
        async with self._store.transaction() as connection:
            for hold in sorted(held, key=lambda hold: hold.run_id):
                until = update(runs).where(*_under(hold)).values(due_at=self._store.now + self._lease)
                row = (await connection.execute(until.returning(runs.c.ready, runs.c.cancelling))).one_or_none()
                if row is not None:
                    renewed[hold] = bool(row.ready), bool(row.cancelling)
        return renewed

    async def ready(self, held: Collection[Hold]) -> dict[Hold, bool]:
        """Return those for which there is something new, and whether that is to be cancelled."""
        ids = [hold.run_id for hold in held]
        async with self._store.transaction() as connection:
            look = select(runs.c.run_id, runs.c.fence, runs.c.cancelling)
            rows = await connection.execute(look.where(runs.c.run_id.in_(ids), runs.c.ready == 1))
            return {Hold(row.run_id, row.fence): bool(row.cancelling) for row in rows}

    async def load(self, hold: Hold) -> tuple[int, list[bytes]]:
        """Read the journal of a run, and how many entries it has. Raises LeaseLostError."""
        async with self._store.transaction() as connection:
            count = await _lock(connection, hold)
            read = select(run_entries.c.entry).where(run_entries.c.run_id == hold.run_id)
            return count, list((await connection.scalars(read.order_by(run_entries.c.position))).all())

    async def append(self, hold: Hold, entry: dict[str, Any], *, function: str, answerer: str | None) -> int:
        """Write an entry, with the question that it asks, and return its position. Raises LeaseLostError.

        function: of the call that the entry is about.
        """
        async with self._store.transaction() as connection:
            await _lock(connection, hold)
            position = await add_entry(connection, self._store, hold.run_id, entry)
            if entry["kind"] == "settled" and entry["outcome"]["status"] == "interrupted":
                await self._ask(connection, hold.run_id, entry, function, answerer)
            return position

    async def _ask(
        self, connection: AsyncConnection, run_id: str, entry: dict[str, Any], function: str, answerer: str | None
    ) -> None:
        asked = entry["outcome"]["interrupt"]
        expires = asked["expiresAt"]
        row = {
            "interrupt_id": asked["interruptId"],
            "run_id": run_id,
            "call": entry["call"],
            "function": function,
            "answerer": answerer,
            "message": asked["message"],
            "content": orjson.dumps({name: asked[name] for name in ("data", "input", "answerSchema")}),
            "status": "pending",
            "asked_at": self._store.now,
            "expires_at": None if expires is None else instant_from_json(expires),
            "tell": "pending",
        }
        done = await connection.execute(self._store.insert_new(interrupts, row))
        if done.rowcount != 1:  # its action has refused the answer
            again = {"status": "pending", "answered_by": null(), "ended_at": null(), "tell": "pending"}
            mine = interrupts.c.interrupt_id == asked["interruptId"]
            await connection.execute(update(interrupts).where(mine).values(again))

    async def park(self, hold: Hold, *, known: int, waiting: Collection[str], leeway: float) -> bool:
        """Give a run up that can go no further now; False: something has come, that its owner does not know.

        known: how many entries of the journal the owner has seen; waiting: the calls whose replies it has not seen;
        leeway: seconds after a call's deadline. Raises LeaseLostError.
        """
        mine = runs.c.run_id == hold.run_id
        open_calls = (run_calls.c.run_id == hold.run_id, run_calls.c.reply.is_(None))
        async with self._store.transaction() as connection:
            entries = await _lock(connection, hold)
            cancelling = await connection.scalar(select(runs.c.cancelling).where(mine))
            came = exists().where(run_calls.c.call_id.in_(list(waiting)), run_calls.c.reply.is_not(None))
            if entries != known or cancelling or await connection.scalar(select(came)):
                await connection.execute(update(runs).where(mine).values(ready=0))
                return False
            first = await connection.scalar(select(func.min(run_calls.c.deadline)).where(*open_calls))
            asks = exists().where(interrupts.c.run_id == hold.run_id, interrupts.c.status == "pending")
            asking = first is None and await connection.scalar(select(asks))
            parked = {
                "owner": None,
                "ready": 0,
                "due_at": None if first is None else first + leeway,
                "status": "waiting" if asking else "running",
                "changed_at": self._store.now,
            }
            await connection.execute(update(runs).where(mine).values(parked))
            await self._store.notify(connection, CHANNEL)
            return True

    async def end(self, hold: Hold, outcome: Outcome) -> None:
        """Write down how a run ended. Raises LeaseLostError."""
        async with self._store.transaction() as connection:
            await _lock(connection, hold)
            told = {"kind": "run.ended", "status": outcome.status, "error": outcome.error}
            await add_entry(connection, self._store, hold.run_id, told)
            ended = {
                "status": outcome.status,
                "outcome": outcome.encode(),
                "owner": None,
                "due_at": None,
                "ready": 0,
                "changed_at": self._store.now,
                "ended_at": self._store.now,
            }
            await connection.execute(update(runs).where(runs.c.run_id == hold.run_id).values(ended))
            void = update(interrupts).where(interrupts.c.run_id == hold.run_id, interrupts.c.status == "pending")
            await connection.execute(void.values(status="cancelled", ended_at=self._store.now, tell=None))
            await self._store.notify(connection, CHANNEL)

    async def release(self, owner: str) -> None:
        """Give an owner's runs back, for another host to take at once."""
        async with self._store.transaction() as connection:
            await connection.execute(update(runs).where(runs.c.owner == owner).values(owner=None, due_at=0.0))
            await self._store.notify(connection, CHANNEL)


# --- for every writer -------------------------------------------------------------------------------------------------


async def add_entry(connection: AsyncConnection, store: Store, run_id: str, entry: dict[str, Any]) -> int:
    """Add an entry to the journal of a run whose row is locked, and return its position."""
    count = update(runs).where(runs.c.run_id == run_id).values(entries=runs.c.entries + 1, changed_at=store.now)
    position = int((await connection.execute(count.returning(runs.c.entries))).scalar_one())
    row = {
        "run_id": run_id,
        "position": position,
        "kind": entry["kind"],
        "entry": orjson.dumps(entry),
        "written_at": store.now,
    }
    await connection.execute(insert(run_entries).values(row))
    return position


async def wake(connection: AsyncConnection, store: Store, run_ids: Collection[str]) -> None:
    """Let runs go on, whose rows are locked: with whom they are, or with whoever takes them."""
    due: ColumnElement[Any] = case((runs.c.owner.is_(None), 0.0), else_=runs.c.due_at)
    going_on = (runs.c.run_id.in_(run_ids), runs.c.ended_at.is_(None))
    await connection.execute(update(runs).where(*going_on).values(ready=1, due_at=due))
    await store.notify(connection, CHANNEL)


def _under(hold: Hold) -> tuple[ColumnElement[bool], ...]:
    return runs.c.run_id == hold.run_id, runs.c.fence == hold.fence, runs.c.owner.is_not(None)


async def _lock(connection: AsyncConnection, hold: Hold) -> int:
    """Lock the row of a run, and return how many entries it has. Raises LeaseLostError."""
    entries = await connection.scalar(select(runs.c.entries).where(*_under(hold)).with_for_update())
    if entries is None:
        raise LeaseLostError(hold.run_id)
    return int(entries)
