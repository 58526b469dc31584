"""A call's lease: what a worker may do as long as its fence holds."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import AnswerConflictError, ConfigurationError, LeaseLostError, StoreAwayError
from grundlag_bus.schema.envelope import Call, Completed, Response, encode_call
from grundlag_bus.store.store import is_away
from grundlag_bus.workers.ledger.failpoints import reach
from grundlag_bus.workers.ledger.outcomes import Hold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.store.store import Store
    from grundlag_bus.workers.ledger.claims import Granted
    from grundlag_bus.workers.ledger.long_records import LongRecords
    from grundlag_bus.workers.ledger.presence import Presence
    from grundlag_bus.workers.ledger.records import Records
    from grundlag_bus.workers.ledger.verdicts import Recorded
    from grundlag_bus.workers.run import Run


class Lease:
    """The lease of one run.

    since, until: by the monotonic clock, when it began and when it ends unless it is renewed; early: whether such calls
    are settled early; concluded: whether what the run came to is recorded; stopped: whether the run was stopped because
    the lease was in danger; checkpointed: where the run continues, None where it begins.
    """

    def __init__(  # noqa: PLR0913, PLR0917  what it writes with
        self,
        run: Run,
        granted: Granted,
        records: Records,
        long_records: LongRecords,
        presence: Presence,
        store: Store,
        *,
        until: float,
        early: bool,
    ) -> None:
        self.fence = granted.fence
        self.hold = Hold(run.call.call_id, granted.fence)
        self.since = time.monotonic()
        self.until = until
        self.early = early
        self.checkpointed: Any = None if granted.checkpoint is None else orjson.loads(granted.checkpoint)
        self.concluded = False
        self.stopped = False
        self._run = run
        self._records = records
        self._long_records = long_records
        self._presence = presence
        self._store = store
        self._connection: AsyncConnection | None = None
        self._closed = False
        self._whole = False

    @property
    def muted(self) -> bool:
        """Whether the worker ends as if it were killed."""
        return self._run.muted

    def stop(self) -> None:
        """Cancel the action: another worker may start the call soon. Nothing is replied."""
        if not self.stopped and not self.concluded:
            self.stopped = True
            self._run.oversight.cancel()

    async def record(self, body: bytes, response: Response, letter: bytes | None = None) -> Recorded | None:
        """Write down how the call ended, and return what counts; None: it is to be claimed anew.

        Whoever waits for it is added to the run's mailboxes.
        """
        reach("run.ended")
        # An action whose connection was lost has failed by that, and not by itself.
        if self._connection is not None and (self.stopped or self._connection.invalidated):
            await self._roll_back()
            return None
        if self._connection is None:
            recorded = await self._presence.ask(lambda: self._records.record(self.hold, body, letter))
        elif self._whole and isinstance(response, Completed):
            recorded = await self._presence.once(self._commit(body))
        else:
            await self._roll_back()
            recorded = await self._presence.ask(lambda: self._records.record(self.hold, body, letter))
        reach("outcome.recorded")
        if recorded is None or recorded[0].reply is not body:
            self._presence.note("fence_refused")
        if recorded is None:
            return None
        self.concluded = True
        for mailbox in recorded[1]:
            self._run.wait_at(mailbox)
        return recorded[0]

    async def buried(self) -> None:
        """Write down that the dead letter is published."""
        await self._presence.ask(lambda: self._records.buried(self.hold.call_id))

    async def replied(self) -> None:
        """Write down that whoever waited has the reply, where no delivery would tell."""
        if self.early:
            await self._presence.ask(lambda: self._long_records.replied(self.hold.call_id))
            reach("reply.marked")

    async def checkpoint(self, state: bytes) -> None:
        """Write down where the next start continues. Raises LeaseLostError, ConfigurationError."""
        if self._connection is not None:
            raise ConfigurationError(
                "ctx.checkpoint() comes before ctx.ledger_transaction(), whose effect counts with the outcome alone."
            )
        if not await self._presence.ask(lambda: self._long_records.checkpoint(self.hold, state)):
            self.stop()
            raise LeaseLostError(f"The call {self.hold.call_id} is another worker's by now: stop.")
        reach("checkpoint.recorded")

    async def hand_over(self, call: Call, pause: float) -> bool:
        """Write down the next generation, before it is published; False: the lease is lost."""
        await self._roll_back()
        envelope = encode_call(call)
        mailboxes = await self._presence.ask(lambda: self._records.hand_over(self.hold, call, envelope, pause))
        reach("handover.recorded")
        if mailboxes is None:
            return False
        self.concluded = True
        for mailbox in mailboxes:
            self._run.wait_at(mailbox)
        return True

    async def handed(self) -> None:
        """Write down that it is published."""
        reach("handover.published")
        await self._presence.ask(lambda: self._records.handed(self.hold))
        reach("handover.marked")

    async def consume(self, interrupt_id: str) -> None:
        """Consume the interrupt that the call answers. Raises AnswerConflictError: another call has."""
        if not await self._presence.ask(lambda: self._records.consume(self.hold, interrupt_id)):
            self._presence.note("answer_conflict")
            told = "was answered before, with something else: the first answer counts."
            raise AnswerConflictError(f"The interrupt {interrupt_id} {told}")
        reach("answer.consumed")

    # --- a transaction of the action's own ----------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open the transaction in which the outcome is recorded too."""
        if self._connection is not None:
            raise ConfigurationError("ctx.ledger_transaction() was opened before in this start: open it once.")
        self._connection = await self._presence.ask(self._store.begin_long, self._keep)
        yield self._connection
        self._whole = True

    async def _commit(self, body: bytes) -> tuple[Recorded, tuple[str, ...]] | None:
        connection, self._connection = self._connection, None
        assert connection is not None  # noqa: S101  asked for by record
        try:
            recorded = await self._records.record(self.hold, body, within=connection)
            if recorded is not None and recorded[0].reply is body:
                await connection.commit()
            else:
                await connection.rollback()
        except Exception as error:
            if not is_away(error) and not isinstance(error, StoreAwayError):
                raise
            # It may have been committed. The next claim finds out.
            return None
        finally:
            await _close(connection)
        return recorded

    async def close(self) -> None:
        """Give up what was not committed, and what is begun only later. Idempotent."""
        self._closed = True
        await self._roll_back()

    async def _roll_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._presence.once(_close(connection))

    def _keep(self, connection: AsyncConnection) -> None:
        """Take a transaction that began when nobody waited for it any more: it may hold up all who write."""
        if self._closed:
            self._presence.beside(_close(connection))
        else:
            self._connection = connection


async def _close(connection: AsyncConnection) -> None:
    """Close it, which rolls back what is not committed."""
    try:
        await connection.close()
    except Exception as error:
        if not is_away(error):
            raise
        await connection.invalidate()
