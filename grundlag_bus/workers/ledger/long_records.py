"""The ledger's statements about calls that are settled early, each a transaction. All raise StoreAwayError."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update

from grundlag_bus.store.tables import calls

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.store.store import Store
    from grundlag_bus.workers.ledger.outcomes import Hold


class LongRecords:
    """Writes what looks after a call, where it continues, and that whoever waited has its reply."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def watched(self, held: Hold, copy: str) -> bool:
        """Write down the watch copy of a call that begins; False: the lease is lost."""
        return await self._write(*_under(held), copy=copy)

    async def replaced(self, call: Call, before: str | None, copy: str) -> None:
        """Write down a copy in the place of another one, unless that looks after the call's generation no more.

        A call that was given back meanwhile has copies too: its worker may claim it again, and no other one looks.
        """
        was = calls.c.copy.is_(None) if before is None else calls.c.copy == before
        same = (calls.c.call_id == call.call_id, calls.c.generation == call.generation)
        await self._write(*same, calls.c.phase.in_(("leased", "free")), was, copy=copy)

    async def checkpoint(self, held: Hold, state: bytes) -> bool:
        """Write down where the next start continues; False: the lease is lost."""
        return await self._write(*_under(held), checkpoint=state)

    async def replied(self, call_id: str) -> None:
        """Write down that all who waited for the reply have it."""
        await self._write(calls.c.call_id == call_id, calls.c.phase.in_(("ended", "dead")), mailboxes="")

    async def _write(self, *where: ColumnElement[bool], **values: str | bytes) -> bool:
        changed = update(calls).where(*where).values(**values, changed_at=self._store.now)
        async with self._store.transaction() as connection:
            return (await connection.execute(changed)).rowcount == 1


def _under(held: Hold) -> tuple[ColumnElement[bool], ...]:
    return calls.c.call_id == held.call_id, calls.c.fence == held.fence, calls.c.phase == "leased"
