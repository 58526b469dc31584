"""Claims: a delivery's call is taken for its worker, or is said to be somebody else's, or to have ended.

Those of the same moment are one statement where the ledger knows none of the calls, as is the rule. The rest is looked
at one by one, in one transaction; a row that somebody else has locked is waited for alone, so that it holds up nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Row, String, exists, literal_column, null, select, update

from grundlag_bus.providers.disposition import Dead, End, Start, StartAlone
from grundlag_bus.schema.envelope import Call, decode_call
from grundlag_bus.store.given import as_given, given
from grundlag_bus.store.tables import calls, tombstones
from grundlag_bus.workers.ledger.joined import Joined
from grundlag_bus.workers.ledger.outcomes import lines
from grundlag_bus.workers.ledger.verdicts import Record, Take, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.sql.dml import ReturningInsert

    from grundlag_bus.store.store import Store


class Decide(Protocol):
    """Decides of a call by how many of its starts were lost, and how many were at its last lone start.

    started: whether it was started before, where its deliveries do not tell.
    """

    def __call__(
        self, call: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool
    ) -> Start | StartAlone | End | Dead: ...


_NAMES = (
    "digest phase generation fence owner lease_until lost alone_at mailboxes next_call due_at reply letter "
    "copy checkpoint"
)
_COLUMNS = [calls.c[name] for name in _NAMES.split(" ")]
_GIVEN = ("call_id", "digest", "provider_id", "action_id", "generation", "owner", "mailboxes")


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery of a call, by the worker that has it.

    digest: of what it asks for; early: whether such calls are settled early; copies: the watch copies that are settled
    with it.
    """

    call: Call
    digest: str
    mailboxes: Sequence[str]
    owner: str
    early: bool = False
    copies: Collection[str] = ()

    @property
    def key(self) -> str:
        return self.call.call_id

    @property
    def size(self) -> int:
        return 1000

    def judged(self, record: Record, *, running: bool = False) -> Verdict:
        return judge(
            record,
            digest=self.digest,
            generation=self.call.generation,
            mailboxes=self.mailboxes,
            owner=self.owner,
            running=running,
            early=self.early,
            copies=self.copies,
        )


@dataclass(frozen=True, slots=True)
class Granted:
    """The call is the worker's: by what fence, as what envelope, and what is to be done with it.

    mailboxes: who waits besides those that the delivery names; checkpoint: where it continues, as JSON.
    """

    fence: int
    call: Call
    decision: Start | StartAlone | End | Dead
    mailboxes: tuple[str, ...] = ()
    checkpoint: bytes | None = None


@dataclass(frozen=True, slots=True)
class NeedsTurn:
    """It may only be started with nothing beside it, and is not claimed."""


Claimed = Granted | NeedsTurn | Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked(Claim):
    decide: Decide
    alone: bool


class Claims:
    """Makes them. lease: seconds."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease
        self._joined = Joined(self._together, self._alone)
        self._new = self._insert_new()

    async def claim(self, claim: Claim, decide: Decide, *, alone: bool) -> Claimed:
        """Take a call for a worker, or say why not. alone: nothing runs beside it."""
        asked = _Asked(
            claim.call,
            claim.digest,
            claim.mailboxes,
            claim.owner,
            claim.early,
            claim.copies,
            decide=decide,
            alone=alone,
        )
        return await self._joined.ask(asked)

    async def look(self, claim: Claim) -> Verdict:
        """Say what a delivery means of a call that its worker runs, and claim nothing."""
        async with self._store.transaction() as connection:
            (record,) = (await self._read(connection, [claim.key], skip_locked=False)).values()
            await _remember(connection, claim, record)
            return claim.judged(record, running=True)

    async def _together(self, asked: Sequence[_Asked]) -> Sequence[Claimed | None]:
        async with self._store.transaction() as connection:
            new = await self._insert(connection, asked)
            known = [each.key for each in asked if each.key not in new]
            records = await self._read(connection, known, skip_locked=True) if known else {}
            return [await self._claim(connection, each, new, records) for each in asked]

    async def _alone(self, asked: _Asked) -> Claimed:
        async with self._store.transaction() as connection:
            new = await self._insert(connection, [asked])
            records = {} if new else await self._read(connection, [asked.key], skip_locked=False)
            claimed = await self._claim(connection, asked, new, records)
        return await self._alone(asked) if claimed is None else claimed  # it was pruned between the two

    async def _claim(
        self, connection: AsyncConnection, asked: _Asked, new: Mapping[str, bool], records: Mapping[str, Record]
    ) -> Claimed | None:
        """Claim a call that is new or whose record is locked; None: somebody else has locked it."""
        if asked.key in new:
            return _first(asked, cancelled=new[asked.key])
        record = records.get(asked.key)
        return None if record is None else await self._take(connection, asked, record)

    # --- statements ---------------------------------------------------------------------------------------------------

    def _insert_new(self) -> ReturningInsert[str, bool]:
        """Make the statement that inserts the calls that are not known, and says which of them are cancelled."""
        rows = given(self._store.dialect, **{name: calls.c[name].type for name in _GIVEN})
        now = self._store.now
        values = {
            **{name: rows.c[name] for name in _GIVEN},
            "phase": "leased",
            "fence": 1,
            "lease_until": now + self._lease,
            "lost": 0,
            "created_at": now,
            "changed_at": now,
        }
        # By its name in full, which SQLAlchemy leaves out in what SQLite is to return.
        inserted = literal_column(str(calls.c.call_id), String)
        cancelled = exists().where(tombstones.c.call_id == inserted).correlate_except(tombstones)
        return self._store.insert_new(calls, values, each=rows).returning(calls.c.call_id, cancelled)

    async def _insert(self, connection: AsyncConnection, asked: Sequence[_Asked]) -> Mapping[str, bool]:
        """Return the calls that were not known, with whether they are cancelled."""
        rows = [
            {
                "call_id": each.call.call_id,
                "digest": each.digest,
                "provider_id": each.call.provider_id,
                "action_id": each.call.action_id,
                "generation": each.call.generation,
                "owner": each.owner,
                "mailboxes": "\n".join(each.mailboxes),
            }
            for each in asked
        ]
        done = await connection.execute(self._new, as_given(rows))
        return {call_id: bool(cancelled) for call_id, cancelled in done}

    async def _read(
        self, connection: AsyncConnection, call_ids: Sequence[str], *, skip_locked: bool
    ) -> Mapping[str, Record]:
        statement = select(calls.c.call_id, *_COLUMNS).where(calls.c.call_id.in_(call_ids))
        rows = (await connection.execute(statement.with_for_update(skip_locked=skip_locked))).all()
        now = float(await connection.scalar(select(self._store.now)) or 0.0)  # after the lock was waited for
        return {row.call_id: _record(row, now) for row in rows}

    async def _take(self, connection: AsyncConnection, asked: _Asked, record: Record) -> Claimed:
        """Take a call that is known, where the record says so."""
        verdict = asked.judged(record)
        await _remember(connection, asked, record)
        if not isinstance(verdict, Take):
            return verdict
        call = _newest(asked.call, record)
        is_cancelled = select(exists().where(tombstones.c.call_id == call.call_id))
        cancelled = bool(await connection.scalar(is_cancelled))
        decision = asked.decide(
            call,
            lost=verdict.lost,
            alone_at=verdict.alone_at,
            entombed=cancelled,
            started=record.copy is not None,  # it is settled early, and so just before it begins
        )
        if isinstance(decision, StartAlone) and not asked.alone:
            return NeedsTurn()
        values = {
            "phase": "leased",
            "generation": call.generation,
            "fence": record.fence + 1,
            "owner": asked.owner,
            "lease_until": self._store.now + self._lease,
            "lost": verdict.lost,
            "alone_at": verdict.lost if isinstance(decision, StartAlone) else verdict.alone_at,
            "mailboxes": "\n".join(dict.fromkeys((*record.mailboxes, *asked.mailboxes))),
            "reply": null(),
            "letter": null(),
            "changed_at": self._store.now,
        }
        await connection.execute(update(calls).where(calls.c.call_id == call.call_id).values(values))
        waiting = record.mailboxes if asked.early else ()
        return Granted(record.fence + 1, call, decision, waiting, record.checkpoint)


def _first(asked: _Asked, *, cancelled: bool) -> Granted:
    """Take a call that was not known."""
    call = replace(asked.call, copy=None)
    return Granted(1, call, asked.decide(call, lost=0, alone_at=None, entombed=cancelled, started=False))


def _record(row: Row[Any], now: float) -> Record:
    fields: dict[str, Any] = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
    del fields["call_id"]
    fields["mailboxes"] = lines(fields["mailboxes"])
    return Record(**fields, now=now)


async def _remember(connection: AsyncConnection, claim: Claim, record: Record) -> None:
    """Add those who wait to a call that has not ended: whoever ends it replies to all."""
    new = [mailbox for mailbox in claim.mailboxes if mailbox not in record.mailboxes]
    if new and record.digest == claim.digest and record.reply is None:
        everybody = "\n".join((*record.mailboxes, *new))
        mine = calls.c.call_id == claim.call.call_id
        await connection.execute(update(calls).where(mine).values(mailboxes=everybody))


def _newest(call: Call, record: Record) -> Call:
    """Return the call as it is to be started: what its generation before recorded counts before any other envelope."""
    if record.next_call is None:
        return replace(call, generation=max(call.generation, record.generation), copy=None)
    recorded = decode_call(record.next_call)
    return replace(
        call,
        generation=max(call.generation, recorded.generation),
        attempt=recorded.attempt,
        deferred=recorded.deferred,
        copy=None,
    )
