"""Settles deliveries of calls that are not this worker's to run, by what is recorded of them.

A reply is sent again, the next generation is published again, or the call goes on through the delay ladder, due when
the lease of whoever runs it ends. So nothing spins and nobody needs to sweep.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import Failed, Reply, encode_call, encode_reply
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.confirmed import Fate, publish_confirmed
from grundlag_bus.workers.ledger.copies import PAUSE
from grundlag_bus.workers.ledger.failpoints import reach
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.verdicts import Behind, Held, Recorded, Reused, Verdict, Watched

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.ledger.copies import WatchCopies
    from grundlag_bus.workers.ledger.long_records import LongRecords
    from grundlag_bus.workers.ledger.presence import Presence
    from grundlag_bus.workers.ledger.records import Records
    from grundlag_bus.workers.outbox import Outbox
    from grundlag_bus.workers.run import Run

PUBLISH_WITHIN = 60.0
"""Seconds that a call or a generation is tried for, at least."""

_LOGGER = get_logger("grundlag_bus.workers")


class Settling:
    """Does what a verdict says."""

    def __init__(  # noqa: PLR0913, PLR0917  what it writes with
        self,
        transport: Transport,
        outbox: Outbox,
        records: Records,
        long_records: LongRecords,
        copies: WatchCopies,
        presence: Presence,
        *,
        worker: str,
    ) -> None:
        self._transport = transport
        self._outbox = outbox
        self._records = records
        self._long_records = long_records
        self._copies = copies
        self._presence = presence
        self._worker = worker

    async def settle(self, run: Run, verdict: Verdict, known: object, *, early: bool) -> None:
        """Settle the run's deliveries, unless it came again meanwhile with what was not `known` of it."""
        run.over = True
        match verdict:
            case Recorded():
                self._presence.note("reply_sent_again")
                await self._send_again(run, verdict)
            case Held() if early:
                self._presence.note("copy_parked")
                if not await self._copies.go_on(run.call, verdict):
                    run.nack()
                elif run.known == known:
                    run.ack()
            case Held(seconds):
                self._presence.note("copy_parked")
                await self._park(run, seconds)
            case Watched():
                if run.known == known:
                    run.ack()
            case Behind():
                await self._catch_up(run, verdict, known)
            case Reused():
                self._presence.note("call_id_reused")
                call_id = run.call.call_id
                told = f"Another call has had the id {call_id}: give each its own."
                reply = Reply(call_id, Failed("call_id_reused", told), self._worker)
                await self._outbox.reply(run, encode_reply(reply))
                run.ack()
            case _:
                raise AssertionError(verdict)

    async def _send_again(self, run: Run, recorded: Recorded) -> None:
        for mailbox in recorded.mailboxes:
            run.wait_at(mailbox)
        await self._outbox.send_again(run, recorded, partial(self._buried, run))
        if recorded.mailboxes and run.replied:
            await self._presence.ask(lambda: self._long_records.replied(run.call.call_id))

    async def _park(self, run: Run, seconds: float) -> None:
        """Let the call come again when the lease of whoever has it ends, and settle this delivery."""
        _LOGGER.debug("call_is_held", call_id=run.call.call_id, seconds=seconds)
        envelope = encode_call(run.call)
        while await self._publish(run, envelope, seconds, run.next_mailbox()):
            reach("watch.published")
            if not run.has_mailbox:
                run.ack()
                return

    async def _catch_up(self, run: Run, behind: Behind, known: object) -> None:
        """Publish the next generation where it may not be, and settle the one before it."""
        for mailbox in behind.mailboxes:
            if not await self._publish(run, behind.next_call, behind.seconds, mailbox):
                return
        if behind.mailboxes:
            hold = Hold(run.call.call_id, behind.fence)
            await self._presence.ask(lambda: self._records.handed(hold))
        if run.known == known:  # else it came again meanwhile, from somebody else
            run.ack()

    async def _publish(self, run: Run, envelope: bytes, seconds: float, mailbox: str | None) -> bool:
        """Publish to the call's own queue, so many seconds later; where that cannot be, give the call back."""
        call = run.call
        route = self._transport.topology.delayed_call_route(call.provider_id, call.lane, seconds)
        message = Message(envelope, "call", correlation_id=call.call_id, reply_to=mailbox)
        until = max(call.deadline, self._transport.now() + PUBLISH_WITHIN)
        fate = await publish_confirmed(self._transport, route, message, until=until)
        if fate is Fate.CONFIRMED:
            return True
        if fate is not Fate.CLOSED:
            _LOGGER.error("call_not_taken_for_later", call_id=call.call_id, reason=fate.name.lower())
            await asyncio.sleep(PAUSE)  # given back it comes again at once
        run.nack()
        return False

    async def _buried(self, run: Run) -> None:
        await self._presence.ask(lambda: self._records.buried(run.call.call_id))
