"""Watch copies: what looks after a call while nothing of it is in anybody's hand.

A copy is the call's own envelope with a name of its own, for no mailbox, in the delay ladder until the lease of whoever
runs the call ends. Whoever gets it finds the call ended and drops it, alive and lets another one take its place, or
dead and takes the call over.

One goes around for each call: the one on record. It is replaced on the broker first, then on record, then settled, so
that what is on record is always there. What is not, since its worker died in between or another one was faster, looks
after nothing and is dropped when it comes: it goes once through the ladder at most.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import encode_call
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.confirmed import Fate, publish_confirmed
from grundlag_bus.workers.ledger.failpoints import reach

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.ledger.long_records import LongRecords
    from grundlag_bus.workers.ledger.outcomes import Hold
    from grundlag_bus.workers.ledger.presence import Presence
    from grundlag_bus.workers.ledger.verdicts import Held

PUBLISH_WITHIN = 30.0
"""Seconds that a copy is tried for."""
PAUSE = 1.0
"""Seconds until what could not be sent on is given back."""

_LOGGER = get_logger("grundlag_bus.workers")


class WatchCopies:
    """Sends them. lease: seconds."""

    def __init__(self, transport: Transport, records: LongRecords, presence: Presence, *, lease: float) -> None:
        self._transport = transport
        self._records = records
        self._presence = presence
        self._lease = lease

    async def begin(self, call: Call, hold: Hold) -> bool:
        """Let one look after a call that begins under a lease; False: none does."""
        copy = await self.send(call, self._lease)
        if copy is None:
            return False
        reach("early.published")
        if not await self._presence.ask(lambda: self._records.watched(hold, copy)):
            return False
        reach("early.recorded")
        return True

    async def go_on(self, call: Call, held: Held) -> bool:
        """Let another one take the place of what is in hand, until somebody's lease ends; False: none does."""
        copy = await self.send(call, held.seconds)
        if copy is None:
            return False
        reach("copy.published")
        await self._presence.ask(lambda: self._records.replaced(call, held.copy, copy))
        reach("copy.replaced")
        return True

    async def send(self, call: Call, seconds: float, *, within: float = PUBLISH_WITHIN) -> str | None:
        """Publish one, and return its name when the broker has it; None: it may have it or not."""
        copy = os.urandom(8).hex()
        route = self._transport.topology.delayed_call_route(call.provider_id, call.lane, seconds)
        message = Message(encode_call(replace(call, copy=copy)), "call", correlation_id=call.call_id)
        fate = await publish_confirmed(self._transport, route, message, until=self._transport.now() + within)
        if fate is Fate.CONFIRMED:
            return copy
        if fate is not Fate.CLOSED:
            _LOGGER.error("watch_copy_not_taken", call_id=call.call_id, reason=fate.name.lower())
            await asyncio.sleep(PAUSE)  # what is given back comes again at once
        return None
