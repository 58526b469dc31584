"""What is recorded of the calls that runs make. All raise StoreAwayError."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import null, select, update

from grundlag_bus.durable.records import LeaseLostError, wake
from grundlag_bus.schema.envelope import Call, Reply, Response, decode_call, decode_reply, encode_call, encode_reply
from grundlag_bus.store.tables import run_calls, runs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from grundlag_bus.durable.records import Hold
    from grundlag_bus.store.store import Store

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a run. is_new: it was not recorded before; reply: how it ended."""

    call: Call
    is_new: bool
    published: bool
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call of a run, and how it ended."""

    call: Call
    response: Response


class CallRecords:
    """Reads and writes them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def record(self, hold: Hold, call: Call, reply: Reply | None = None) -> RecordedCall:
        """Write down that a call is about to be sent, or return what is known of it. Raises LeaseLostError.

        reply: how it ends, where that is known before.
        """
        row = {
            "call_id": call.call_id,
            "run_id": hold.run_id,
            "phase": "recorded" if reply is None else "ended",
            "call": encode_call(call),
            "deadline": call.deadline,
            "reply": null() if reply is None else encode_reply(reply),
            "created_at": self._store.now,
            "ended_at": null() if reply is None else self._store.now,
        }
        mine = (runs.c.run_id == hold.run_id, runs.c.fence == hold.fence, runs.c.owner.is_not(None))
        async with self._store.transaction() as connection:
            if await connection.scalar(select(runs.c.run_id).where(*mine).with_for_update()) is None:
                raise LeaseLostError(hold.run_id)
            if (await connection.execute(self._store.insert_new(run_calls, row))).rowcount == 1:
                return RecordedCall(call, is_new=True, published=False, reply=reply)
            known = select(run_calls.c.phase, run_calls.c.call, run_calls.c.reply)
            found = (await connection.execute(known.where(run_calls.c.call_id == call.call_id))).one()
        ended = None if found.reply is None else decode_reply(found.reply)
        return RecordedCall(decode_call(found.call), is_new=False, published=found.phase == "published", reply=ended)

    async def renew(self, call: Call) -> None:
        """Write down that a call, of which it is unsure whether the broker has it, is about to be sent again."""
        again = {"phase": "recorded", "call": encode_call(call), "deadline": call.deadline}
        await self._update(call.call_id, again)

    async def published(self, call_id: str) -> None:
        """Write down that the broker has a call."""
        await self._update(call_id, {"phase": "published"})

    async def _update(self, call_id: str, values: Mapping[str, object]) -> None:
        async with self._store.transaction() as connection:
            going_on = (run_calls.c.call_id == call_id, run_calls.c.reply.is_(None))
            await connection.execute(update(run_calls).where(*going_on).values(**values))

    async def end(self, reply: Reply) -> Reply:
        """Write down how a call ended here, and return how it did: a reply that came before counts."""
        mine = run_calls.c.call_id == reply.call_id
        async with self._store.transaction() as connection:
            ended = {"phase": "ended", "reply": encode_reply(reply), "ended_at": self._store.now}
            await connection.execute(update(run_calls).where(mine, run_calls.c.reply.is_(None)).values(ended))
            recorded = await connection.scalar(select(run_calls.c.reply).where(mine))
        return reply if recorded is None else decode_reply(recorded)

    async def take(self, replies: Mapping[str, bytes]) -> set[str]:
        """Write replies down, each of which wakes its run, and return the calls that they are the first for."""
        taken: set[str] = set()
        ids = list(replies)
        async with self._store.transaction() as connection:
            of_run = select(run_calls.c.call_id, run_calls.c.run_id).where(run_calls.c.call_id.in_(ids))
            run_ids = {row.run_id for row in await connection.execute(of_run)}
            if not run_ids:
                return taken
            lock = select(runs.c.run_id).where(runs.c.run_id.in_(run_ids)).order_by(runs.c.run_id).with_for_update()
            await connection.execute(lock)
            for call_id in ids:
                ended = {"phase": "ended", "reply": replies[call_id], "ended_at": self._store.now}
                open_call = (run_calls.c.call_id == call_id, run_calls.c.reply.is_(None))
                done = await connection.execute(update(run_calls).where(*open_call).values(ended))
                if done.rowcount == 1:
                    taken.add(call_id)
            if taken:
                await wake(connection, self._store, run_ids)
        return taken

    async def replies(self, call_ids: Collection[str]) -> list[Reply]:
        """Read those that are there."""
        found: list[bytes] = []
        ids = list(call_ids)
        async with self._store.transaction() as connection:
            for start in range(0, len(ids), _CHUNK):
                here = run_calls.c.call_id.in_(ids[start : start + _CHUNK])
                read = select(run_calls.c.reply).where(here, run_calls.c.reply.is_not(None))
                found.extend((await connection.scalars(read)).all())
        return [decode_reply(reply) for reply in found]

    async def of_run(self, run_id: str) -> list[EndedCall]:
        """Read the calls of a run that have ended, as they ended."""
        ended = (run_calls.c.run_id == run_id, run_calls.c.reply.is_not(None))
        read = select(run_calls.c.call, run_calls.c.reply).where(*ended)
        async with self._store.transaction() as connection:
            rows = (await connection.execute(read.order_by(run_calls.c.ended_at, run_calls.c.call_id))).all()
        return [EndedCall(decode_call(row.call), decode_reply(row.reply).response) for row in rows]

    async def mailbox_lost(self) -> None:
        """Write down that replies may be gone: of every call without one it is unsure whether the bus has it."""
        open_call = (run_calls.c.phase == "published", run_calls.c.reply.is_(None))
        async with self._store.transaction() as connection:
            ids = set((await connection.scalars(select(run_calls.c.run_id).where(*open_call))).all())
            if ids:
                lock = select(runs.c.run_id).where(runs.c.run_id.in_(ids)).order_by(runs.c.run_id).with_for_update()
                await connection.execute(lock)
                await connection.execute(update(run_calls).where(*open_call).values(phase="recorded"))
                await wake(connection, self._store, ids)
