"""Answers to what runs ask: each is one transaction, from the question's row to the entry by which its call goes on.

Of two that come at once the first one counts, and the other is told whose that was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import insert, select, update

from grundlag_bus.durable.records import add_entry, wake
from grundlag_bus.errors import (
    AnswerConflictError,
    AnswerInvalidError,
    ForbiddenError,
    InterruptExpiredError,
    InterruptUnknownError,
    RunStateError,
)
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.json_schema import JsonValidator
from grundlag_bus.store.tables import interrupts, run_answers, runs

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.store.store import Store

_MOST_EXPIRED = 100


@dataclass(frozen=True, slots=True)
class Given:
    """What somebody says to a question.

    what: `answered`, `rejected`, `edited`; content: the answer, the reason or the input.
    """

    what: str
    content: Any
    by: str | None


class Answering:
    """Writes answers down."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def give(self, interrupt_id: str, given: Given) -> str:
        """Answer a question, and return its run's id. The same answer of the same person may be given again.

        Raises InterruptUnknownError, ForbiddenError, AnswerInvalidError, AnswerConflictError, InterruptExpiredError,
        RunStateError: nothing has changed then.
        """
        async with self._store.transaction() as connection:
            asked = await self._lock(connection, interrupt_id)
            if asked is None:
                raise InterruptUnknownError([interrupt_id], [])
            if asked.answerer is not None and asked.answerer != given.by:
                raise ForbiddenError(f"The interrupt {interrupt_id!r} is for somebody else to answer.")
            now = float(await connection.scalar(select(self._store.now)) or 0.0)
            if not await self._ensure_pending(connection, asked, given, now):
                return str(asked.run_id)
            if given.what == "answered":
                _check(asked, given.content)
            entry = _entry(asked, given)
            await self._settle(connection, asked, given.what, entry, by=given.by, content=given.content)
            return str(asked.run_id)

    async def expire(self) -> int:
        """End questions that nobody answered in time, and return how many that were."""
        late = (interrupts.c.status == "pending", interrupts.c.expires_at <= self._store.now)
        async with self._store.transaction() as connection:
            ids = (await connection.scalars(select(interrupts.c.interrupt_id).where(*late).limit(_MOST_EXPIRED))).all()
        for interrupt_id in ids:
            async with self._store.transaction() as connection:
                asked = await self._lock(connection, interrupt_id)
                if asked is not None and asked.status == "pending":
                    told = f"Nobody answered in time: {asked.message}"
                    entry = _failure(asked, "interrupt_expired", told, by=None)
                    await self._settle(connection, asked, "expired", entry, by=None, content=None)
        return len(ids)

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _lock(self, connection: AsyncConnection, interrupt_id: str) -> Row[Any] | None:
        """Lock the run of a question, then read the question."""
        mine = interrupts.c.interrupt_id == interrupt_id
        run_id = await connection.scalar(select(interrupts.c.run_id).where(mine))
        if run_id is None:
            return None
        await connection.execute(select(runs.c.run_id).where(runs.c.run_id == run_id).with_for_update())
        return (await connection.execute(select(interrupts).where(mine))).one_or_none()

    @staticmethod
    async def _ensure_pending(connection: AsyncConnection, asked: Row[Any], given: Given, now: float) -> bool:
        """Say whether it can be answered; False: that was given before."""
        if asked.status == "cancelled":
            raise RunStateError(f"The run of the interrupt {asked.interrupt_id!r} has ended.")
        expired = asked.expires_at is not None and asked.expires_at <= now
        if asked.status == "expired" or (asked.status == "pending" and expired):
            raise InterruptExpiredError(f"The interrupt {asked.interrupt_id!r} was not answered in time.")
        if asked.status == "pending":
            return True
        mine = run_answers.c.interrupt_id == asked.interrupt_id
        newest = select(run_answers.c.what, run_answers.c.given_by, run_answers.c.content).where(mine)
        before = (await connection.execute(newest.order_by(run_answers.c.given_at.desc()).limit(1))).one()
        if before == (given.what, given.by, orjson.dumps(given.content)):
            return False
        who = "somebody" if before.given_by is None else repr(before.given_by)
        raise AnswerConflictError(
            f"The interrupt {asked.interrupt_id!r} was {before.what} by {who} before.", details={"by": before.given_by}
        )

    async def _settle(  # noqa: PLR0913  all that is written
        self,
        connection: AsyncConnection,
        asked: Row[Any],
        what: str,
        entry: dict[str, Any],
        *,
        by: str | None,
        content: Any,
    ) -> None:
        mine = interrupts.c.interrupt_id == asked.interrupt_id
        tell = "expired" if what == "expired" else "answered"
        ended = {"status": what, "answered_by": by, "ended_at": self._store.now, "tell": tell}
        await connection.execute(update(interrupts).where(mine).values(ended))
        row = {
            "answer_id": new_call_id(),
            "interrupt_id": asked.interrupt_id,
            "run_id": asked.run_id,
            "what": what,
            "given_by": by,
            "content": orjson.dumps(content),
            "given_at": self._store.now,
        }
        await connection.execute(insert(run_answers).values(row))
        await add_entry(connection, self._store, asked.run_id, entry)
        await connection.execute(update(runs).where(runs.c.run_id == asked.run_id).values(status="running"))
        await wake(connection, self._store, [asked.run_id])


def _entry(asked: Row[Any], given: Given) -> dict[str, Any]:
    if given.what == "rejected":
        who = "Somebody" if given.by is None else given.by
        why = f": {given.content}" if given.content else "."
        return _failure(asked, "rejected", f"{who} rejected the call{why}", by=given.by)
    name = "answer" if given.what == "answered" else "input"
    told = {"kind": given.what, "call": asked.call, "interruptId": asked.interrupt_id}
    return {**told, name: given.content, "by": given.by}


def _failure(asked: Row[Any], code: str, message: str, *, by: str | None) -> dict[str, Any]:
    outcome = {"status": "failed", "code": code, "message": message}
    told = {"kind": "settled", "call": asked.call, "outcome": outcome, "at": time.time()}
    return {**told, "interruptId": asked.interrupt_id, "by": by}


def _check(asked: Row[Any], answer: Any) -> None:
    schema = orjson.loads(asked.content)["answerSchema"]
    if schema is not None and (issues := JsonValidator(schema).issues(answer)):
        raise AnswerInvalidError(asked.function, issues)
