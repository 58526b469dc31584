"""Outcomes: how a call ended is written down by whoever has its lease, and by nobody else.

Those of the same moment are one statement. Whoever's it does not write asks alone, and learns what is recorded instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, String, case, null, select, update

from grundlag_bus.store.given import as_given, given
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger.joined import Joined
from grundlag_bus.workers.ledger.verdicts import Recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Update
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.sql.dml import ReturningUpdate

    from grundlag_bus.store.store import Store

Counts = tuple[Recorded, tuple[str, ...]]
"""What is recorded of a call, and who waits for it."""

_ENDING = ("leased", "handing")
"""The phases that a call may end from."""


@dataclass(frozen=True, slots=True)
class Hold:
    """By what is a call a worker's."""

    call_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class _Outcome:
    held: Hold
    reply: bytes
    letter: bytes | None

    @property
    def key(self) -> str:
        return self.held.call_id

    @property
    def size(self) -> int:
        return len(self.reply) + len(self.letter or b"")


class Outcomes:
    """Writes them down."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._joined = Joined(self._together, self._alone)
        self._ended = self._end_all()

    async def record(
        self, held: Hold, reply: bytes, letter: bytes | None, *, within: AsyncConnection | None
    ) -> Counts | None:
        """Write one down, as `Records.record` says."""
        outcome = _Outcome(held, reply, letter)
        if within is not None:
            return await self._record(within, outcome)
        return (await self._joined.ask(outcome))[0]

    # An answer is a tuple of one: that the lease is lost is one too.

    async def _together(self, outcomes: Sequence[_Outcome]) -> Sequence[tuple[Counts | None] | None]:
        async with self._store.transaction() as connection:
            done = await connection.execute(self._ended, as_given(_row(outcome) for outcome in outcomes))
            waiting = {call_id: lines(mailboxes) for call_id, mailboxes in done}
        return [
            ((Recorded(outcome.reply, outcome.letter), waiting[outcome.key]),) if outcome.key in waiting else None
            for outcome in outcomes
        ]

    async def _alone(self, outcome: _Outcome) -> tuple[Counts | None]:
        async with self._store.transaction() as connection:
            return (await self._record(connection, outcome),)

    async def _record(self, connection: AsyncConnection, outcome: _Outcome) -> Counts | None:
        held, reply, letter = outcome.held, outcome.reply, outcome.letter
        ended = {
            **self._ending(),
            "phase": _phase(letter),
            "reply": reply,
            "letter": null() if letter is None else letter,
        }
        if letter is None:
            ended["checkpoint"] = null()
        statement = under(held, *_ENDING).values(ended).returning(calls.c.mailboxes)
        mailboxes = (await connection.execute(statement)).scalar_one_or_none()
        if mailboxes is not None:
            return Recorded(reply, letter), lines(mailboxes)
        recorded = select(calls.c.reply, calls.c.letter, calls.c.mailboxes).where(calls.c.call_id == held.call_id)
        row = (await connection.execute(recorded)).one_or_none()
        return None if row is None or row.reply is None else (Recorded(row.reply, row.letter), lines(row.mailboxes))

    def _end_all(self) -> ReturningUpdate[str, str]:
        """Make the statement that ends calls whose leases hold.

        It waits for no lock, so that two of them never wait for each other.
        """
        rows = given(
            self._store.dialect,
            call_id=String(),
            fence=BigInteger(),
            phase=String(),
            reply=calls.c.reply.type,
            letter=calls.c.letter.type,
        )
        free = select(rows).join(calls, calls.c.call_id == rows.c.call_id).with_for_update(of=calls, skip_locked=True)
        mine = free.subquery("mine")
        ended = {
            **self._ending(),
            "phase": mine.c.phase,
            "reply": mine.c.reply,
            "letter": mine.c.letter,
            # What is dead may be redriven, and goes on where it was.
            "checkpoint": case((mine.c.phase == "dead", calls.c.checkpoint), else_=null()),
        }
        held = (calls.c.call_id == mine.c.call_id, calls.c.fence == mine.c.fence, calls.c.phase.in_(_ENDING))
        return update(calls).where(*held).values(ended).returning(calls.c.call_id, calls.c.mailboxes)

    def _ending(self) -> dict[str, Any]:
        free = {"owner": None, "lease_until": None, "next_call": null(), "due_at": None, "copy": null()}
        return {**free, "changed_at": self._store.now}


def under(held: Hold, *phases: str) -> Update:
    """Begin a statement that writes to a call as long as its lease holds, in one of these phases."""
    mine = (calls.c.call_id == held.call_id, calls.c.fence == held.fence, calls.c.phase.in_(phases))
    return update(calls).where(*mine)


def lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _phase(letter: bytes | None) -> str:
    return "ended" if letter is None else "dead"


def _row(outcome: _Outcome) -> dict[str, Any]:
    return {
        "call_id": outcome.held.call_id,
        "fence": outcome.held.fence,
        "phase": _phase(outcome.letter),
        "reply": outcome.reply,
        "letter": outcome.letter,
    }
