"""The ledger's statements. All raise StoreAwayError.

Whatever is written under a lease is written by compare-and-set of its fence: who has lost it writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import null, select, update

from grundlag_bus.store.tables import answers, calls, tombstones
from grundlag_bus.workers.ledger.claims import Claims
from grundlag_bus.workers.ledger.outcomes import Hold, Outcomes, lines, under

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.store.store import Store
    from grundlag_bus.workers.ledger.claims import Claim, Claimed, Decide
    from grundlag_bus.workers.ledger.outcomes import Counts
    from grundlag_bus.workers.ledger.verdicts import Verdict

_CHUNK = 500


class Records:
    """Reads and writes them. lease: seconds."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store = store
        self._lease = lease
        self._claims = Claims(store, lease)
        self._outcomes = Outcomes(store)

    async def claim(self, claim: Claim, decide: Decide, *, alone: bool) -> Claimed:
        """Take a call for a worker, or say why not. alone: nothing runs beside it."""
        return await self._claims.claim(claim, decide, alone=alone)

    async def look(self, claim: Claim) -> Verdict:
        """Say what a delivery means of a call that its worker runs, and claim nothing."""
        return await self._claims.look(claim)

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
            for each in sorted(held, key=lambda each: each.call_id):
                free = {"phase": "free", "owner": None, "lease_until": None}
                await connection.execute(under(each, "leased").values(free))

    async def record(
        self, held: Hold, reply: bytes, letter: bytes | None = None, *, within: AsyncConnection | None = None
    ) -> Counts | None:
        """Write down how a call ended, and return what is written, with those who wait; None: the lease is lost.

        within: a transaction that it is a part of, to be committed by its owner where the very reply is returned.
        """
        return await self._outcomes.record(held, reply, letter, within=within)

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
            "copy": null(),
            "changed_at": self._store.now,
        }
        async with self._store.transaction() as connection:
            statement = under(held, "leased", "handing").values(handing).returning(calls.c.mailboxes)
            mailboxes = (await connection.execute(statement)).scalar_one_or_none()
            return None if mailboxes is None else lines(mailboxes)

    async def handed(self, held: Hold) -> None:
        """Write down that the next generation is on the broker."""
        async with self._store.transaction() as connection:
            await connection.execute(under(held, "handing").values(phase="waiting"))

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
            for call_id in sorted(call_ids):
                row = {"call_id": call_id, "cancelled_at": self._store.now}
                await connection.execute(self._store.insert_new(tombstones, row))
