"""The ledger's statements, each a transaction of its own. All raise StoreAwayError.

Whatever is written under a lease is written by compare-and-set of its fence: who has lost it writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Select, Update, exists, null, select, update

from grundlag_bus.providers.disposition import Dead, End, Start, StartAlone
from grundlag_bus.schema.envelope import Call, decode_call
from grundlag_bus.store.tables import answers, calls, tombstones
from grundlag_bus.workers.ledger.verdicts import Record, Recorded, Take, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.store.store import Store


class Decide(Protocol):
    """Decides of a call by how many of its starts were lost, and how many were at its last lone start."""

    def __call__(
        self, call: Call, /, *, lost: int, alone_at: int | None, entombed: bool
    ) -> Start | StartAlone | End | Dead: ...


_NAMES = "digest phase generation fence owner lease_until lost alone_at mailboxes next_call due_at reply letter"
_COLUMNS = [calls.c[name] for name in _NAMES.split(" ")]
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery of a call, by the worker that has it. digest: of what it asks for."""

    call: Call
    digest: str
    mailboxes: Sequence[str]
    owner: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The call is the worker's: by what fence, as what envelope, and what is to be done with it."""

    fence: int
    call: Call
    decision: Start | StartAlone | End | Dead


@dataclass(frozen=True, slots=True)
class NeedsTurn:
    """It may only be started with nothing beside it, and is not claimed."""


@dataclass(frozen=True, slots=True)
class Hold:
    """By what is a call a worker's."""

    call_id: str
    fence: int


class Records:
    """Reads and writes them. lease: seconds."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease

    # --- claiming -----------------------------------------------------------------------------------------------------

    async def claim(self, claim: Claim, decide: Decide, *, alone: bool) -> Granted | NeedsTurn | Verdict:
        """Take a call for a worker, or say why not. alone: nothing runs beside it."""
        async with self._store.transaction() as connection:
            if await self._insert(connection, claim):
                cancelled = await _is_cancelled(connection, claim.call)
                return Granted(1, claim.call, decide(claim.call, lost=0, alone_at=None, entombed=cancelled))
            record = await self._read(connection, claim.call.call_id)
            verdict = judge(
                record,
                digest=claim.digest,
                generation=claim.call.generation,
                mailboxes=claim.mailboxes,
                owner=claim.owner,
            )
            await self._remember(connection, claim, record)
            if not isinstance(verdict, Take):
                return verdict
            call = _newest(claim.call, record)
            cancelled = await _is_cancelled(connection, call)
            decision = decide(call, lost=verdict.lost, alone_at=verdict.alone_at, entombed=cancelled)
            if isinstance(decision, StartAlone) and not alone:
                return NeedsTurn()
            values = {
                "phase": "leased",
                "generation": call.generation,
                "fence": record.fence + 1,
                "owner": claim.owner,
                "lease_until": self._store.now + self._lease,
                "lost": verdict.lost,
                "alone_at": verdict.lost if isinstance(decision, StartAlone) else verdict.alone_at,
                "reply": null(),
                "letter": null(),
                "changed_at": self._store.now,
            }
            await connection.execute(update(calls).where(calls.c.call_id == call.call_id).values(values))
            return Granted(record.fence + 1, call, decision)

    async def _insert(self, connection: AsyncConnection, claim: Claim) -> bool:
        call, now = claim.call, self._store.now
        row = {
            "call_id": call.call_id,
            "digest": claim.digest,
            "provider_id": call.provider_id,
            "action_id": call.action_id,
            "phase": "leased",
            "generation": call.generation,
            "fence": 1,
            "owner": claim.owner,
            "lease_until": now + self._lease,
            "lost": 0,
            "mailboxes": "\n".join(claim.mailboxes),
            "created_at": now,
            "changed_at": now,
        }
        done = await connection.execute(self._store.insert_new(calls, row))
        return done.rowcount == 1

    async def _read(self, connection: AsyncConnection, call_id: str) -> Record:
        row = (await connection.execute(self._locked(select(*_COLUMNS), call_id))).one()
        now = await connection.scalar(select(self._store.now))  # after the lock was waited for
        fields: dict[str, Any] = dict(row._mapping)  # noqa: SLF001  SQLAlchemy's public name for it
        fields["mailboxes"] = _lines(fields["mailboxes"])
        return Record(**fields, now=float(now or 0.0))

    @staticmethod
    def _locked(statement: Select[Any], call_id: str) -> Select[Any]:
        return statement.select_from(calls).where(calls.c.call_id == call_id).with_for_update()

    @staticmethod
    async def _remember(connection: AsyncConnection, claim: Claim, record: Record) -> None:
        """Add those who wait to a call that has not ended: whoever ends it replies to all."""
        new = [mailbox for mailbox in claim.mailboxes if mailbox not in record.mailboxes]
        if new and record.digest == claim.digest and record.reply is None:
            everybody = "\n".join((*record.mailboxes, *new))
            mine = calls.c.call_id == claim.call.call_id
            await connection.execute(update(calls).where(mine).values(mailboxes=everybody))

    # --- under a lease ------------------------------------------------------------------------------------------------

    async def renew(self, held: Sequence[Hold], owner: str) -> set[Hold]:
        """Hold on to leases, and return those that could be."""
        renewed: set[Hold] = set()
        async with self._store.transaction() as connection:
            for start in range(0, len(held), _CHUNK):
                ids = [each.call_id for each in held[start : start + _CHUNK]]
                mine = update(calls).where(calls.c.call_id.in_(ids), calls.c.owner == owner, calls.c.phase == "leased")
                until = mine.values(lease_until=self._store.now + self._lease)
                done = await connection.execute(until.returning(calls.c.call_id, calls.c.fence))
                renewed.update(Hold(call_id, fence) for call_id, fence in done)
        return renewed & set(held)

    async def release(self, held: Iterable[Hold]) -> None:
        """Give calls back, of which nothing is lost; whatever else became of them stays."""
        async with self._store.transaction() as connection:
            for each in held:
                free = {"phase": "free", "owner": None, "lease_until": None}
                await connection.execute(self._under(each, "leased").values(free))

    async def record(
        self, held: Hold, reply: bytes, letter: bytes | None = None, *, within: AsyncConnection | None = None
    ) -> tuple[Recorded, tuple[str, ...]] | None:
        """Write down how a call ended, and return what is written, with those who wait; None: the lease is lost.

        within: a transaction that it is a part of, to be committed by its owner where the very reply is returned.
        """
        if within is not None:
            return await self._record(within, held, reply, letter)
        async with self._store.transaction() as connection:
            return await self._record(connection, held, reply, letter)

    async def _record(
        self, connection: AsyncConnection, held: Hold, reply: bytes, letter: bytes | None
    ) -> tuple[Recorded, tuple[str, ...]] | None:
        ended = {
            "phase": "ended" if letter is None else "dead",
            "owner": None,
            "lease_until": None,
            "next_call": null(),
            "due_at": None,
            "reply": reply,
            "letter": letter if letter is not None else null(),
            "changed_at": self._store.now,
        }
        statement = self._under(held, "leased", "handing").values(ended).returning(calls.c.mailboxes)
        mailboxes = (await connection.execute(statement)).scalar_one_or_none()
        if mailboxes is not None:
            return Recorded(reply, letter), _lines(mailboxes)
        row = (
            await connection.execute(
                select(calls.c.reply, calls.c.letter, calls.c.mailboxes).where(calls.c.call_id == held.call_id)
            )
        ).one_or_none()
        return None if row is None or row.reply is None else (Recorded(row.reply, row.letter), _lines(row.mailboxes))

    async def buried(self, call_id: str) -> None:
        """Write down that a dead letter is published."""
        async with self._store.transaction() as connection:
            await connection.execute(update(calls).where(calls.c.call_id == call_id).values(letter=null()))

    async def hand_over(self, held: Hold, call: Call, envelope: bytes, pause: float) -> tuple[str, ...] | None:
        """Write down the next generation, and return those who wait for its reply; None: the lease is lost."""
        handing = {
            "phase": "handing",
            "owner": None,
            "lease_until": None,
            "generation": call.generation,
            "next_call": envelope,
            "due_at": self._store.now + pause,
            "lost": 0,
            "alone_at": null(),
            "changed_at": self._store.now,
        }
        async with self._store.transaction() as connection:
            statement = self._under(held, "leased", "handing").values(handing).returning(calls.c.mailboxes)
            mailboxes = (await connection.execute(statement)).scalar_one_or_none()
            return None if mailboxes is None else _lines(mailboxes)

    async def handed(self, held: Hold) -> None:
        """Write down that the next generation is on the broker."""
        async with self._store.transaction() as connection:
            await connection.execute(self._under(held, "handing").values(phase="waiting"))

    async def consume(self, held: Hold, interrupt_id: str) -> bool:
        """Consume an interrupt for a call that has a valid answer; False: another call has."""
        row = {"interrupt_id": interrupt_id, "call_id": held.call_id, "answered_at": self._store.now}
        async with self._store.transaction() as connection:
            await connection.execute(self._store.insert_new(answers, row))
            by = select(answers.c.call_id).where(answers.c.interrupt_id == interrupt_id)
            return await connection.scalar(by) == held.call_id

    async def entomb(self, call_ids: Collection[str]) -> None:
        """Let calls never start."""
        async with self._store.transaction() as connection:
            for call_id in call_ids:
                row = {"call_id": call_id, "cancelled_at": self._store.now}
                await connection.execute(self._store.insert_new(tombstones, row))

    @staticmethod
    def _under(held: Hold, *phases: str) -> Update:
        mine = (calls.c.call_id == held.call_id, calls.c.fence == held.fence, calls.c.phase.in_(phases))
        return update(calls).where(*mine)


async def _is_cancelled(connection: AsyncConnection, call: Call) -> bool:
    return bool(await connection.scalar(select(exists().where(tombstones.c.call_id == call.call_id))))


def _newest(call: Call, record: Record) -> Call:
    """Return the call as it is to be started: what its generation before recorded counts before any other envelope."""
    if record.next_call is None:
        return replace(call, generation=max(call.generation, record.generation))
    recorded = decode_call(record.next_call)
    return replace(
        call,
        generation=max(call.generation, recorded.generation),
        attempt=recorded.attempt,
        deferred=recorded.deferred,
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()
