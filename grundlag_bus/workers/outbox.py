"""Carries out what was decided of a call: replies first, settles last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.providers.disposition import Again, Dead, Disposition, End
from grundlag_bus.schema.dead_letter import DeadLetter
from grundlag_bus.schema.envelope import Failed, Response, encode_call, encode_reply
from grundlag_bus.tools.endings import outcome_unknown
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.confirmed import Fate, publish_confirmed
from grundlag_bus.workers.finished import Finished
from grundlag_bus.workers.ledger.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.providers.local import LocalCaller
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.ledger.verdicts import Recorded
    from grundlag_bus.workers.run import Run
    from grundlag_bus.workers.told import Told

REPLY_WITHIN = 60.0
"""Seconds that a finished call's reply is tried for, at least."""

LAST_REPLY_WITHIN = 3.0
"""Seconds that the reply of a call is tried for whose worker stops."""

_LOGGER = get_logger("grundlag_bus.workers")


class Outbox:
    """Publishes what becomes of calls, each until the broker has it."""

    def __init__(self, transport: Transport, local: LocalCaller, name: str, told: Told) -> None:
        self._transport = transport
        self._local = local
        self._name = name
        self._told = told
        self.finished = Finished()

    async def carry_out(self, run: Run, disposition: Disposition) -> None:
        """Do what was decided, and settle every delivery of the call."""
        match disposition:
            case End(response):
                await self.end(run, response)
            case Dead(response):
                letter = DeadLetter(response, self._name, self._transport.now(), run.call)
                await self.end(run, response, letter.encode())
            case Again():
                await self._send_on(run, disposition)

    async def end(self, run: Run, response: Response, letter: bytes | None = None) -> None:
        """Reply, then settle. letter: a dead letter, published before that.

        With a ledger, what is recorded first is published: where another worker was faster, its reply, and where the
        lease is lost, nothing. The run is then not settled.
        """
        reply = self._local.reply(run.call, response)
        body = ours = encode_reply(reply)
        if run.lease is not None:
            recorded = await run.lease.record(body, reply.response, letter)
            if recorded is None:
                return
            body, letter = recorded.reply, recorded.letter
        if letter is not None:
            if not await self._bury(run, letter, response):
                return
            if run.lease is not None:
                await run.lease.buried()
        if body == ours:
            self._told.ended(run, reply.response)
        await self._publish(run, body)

    async def send_again(self, run: Run, recorded: Recorded, buried: Callable[[], Awaitable[None]]) -> None:
        """Send what is recorded to whoever waits, then settle. buried: called when its dead letter is published."""
        if recorded.letter is not None:
            if not await self._bury(run, recorded.letter, None):
                return
            await buried()
        await self._publish(run, recorded.reply)

    async def _publish(self, run: Run, body: bytes) -> None:
        run.replied = await self.reply(run, body)
        try:
            await self._local.ended(run.call.call_id)
            await self.reply(run, body)  # to who asked meanwhile
        except asyncio.CancelledError:
            if not run.has_mailbox:
                run.ack()
            raise
        self.finished.add(run.call, body, size=run.size)
        reach("reply.published")
        if run.lease is not None and run.replied:
            await run.lease.replied()
        run.ack()

    async def end_unsure(self, run: Run) -> None:
        """Reply that a call may have run, if that can be within a moment, and settle it in any case."""
        response = outcome_unknown(run.call, "its worker stopped, and it may not be started again", published=True)
        if not run.over:
            self._told.ended(run, response)
        body: bytes | None = encode_reply(self._local.reply(run.call, response))
        try:
            async with asyncio.timeout(LAST_REPLY_WITHIN):
                if run.lease is not None and body is not None:
                    recorded = await run.lease.record(body, response)
                    body = None if recorded is None else recorded.reply
                if body is not None and await self.reply(run, body) and run.lease is not None:
                    await run.lease.replied()
        except TimeoutError:
            _LOGGER.warning("reply_not_taken", call_id=run.call.call_id, reason="the worker stops")
        finally:
            if run.lease is not None and not run.lease.concluded:
                run.nack()  # who has it next finds by the record that it was started
            else:
                run.ack()

    async def reply(self, run: Run, body: bytes) -> bool:
        """Publish the reply to all who wait for it; False: the transport was closed, and the call is given back.

        A mailbox that is gone or forbidden, and a caller that waits no longer, end it as well as a confirm.
        """
        call = run.call
        until = max(call.deadline, self._transport.now() + REPLY_WITHIN)
        message = Message(body, "reply", correlation_id=call.call_id)
        while mailbox := run.next_mailbox():
            route = self._transport.topology.reply_route(mailbox)
            try:
                fate = await publish_confirmed(self._transport, route, message, until=until)
            except asyncio.CancelledError:
                run.wait_at(mailbox)
                raise
            if fate is Fate.CLOSED:
                run.nack()
                return False
            if fate is Fate.NOBODY:
                _LOGGER.info("reply_not_wanted", call_id=call.call_id, mailbox=mailbox)  # its caller has closed the bus
            elif fate is not Fate.CONFIRMED:
                _LOGGER.warning("reply_not_taken", call_id=call.call_id, mailbox=mailbox, reason=fate.name.lower())
        return True

    async def _bury(self, run: Run, letter: bytes, response: Response | None) -> bool:
        """Publish a dead letter; where that cannot be now, give the call back."""
        message = Message(letter, "dead", correlation_id=run.call.call_id)
        until = self._transport.now() + REPLY_WITHIN
        fate = await publish_confirmed(self._transport, self._transport.topology.dead_route, message, until=until)
        if fate in (Fate.CLOSED, Fate.GIVEN_UP):
            run.nack()
            return False
        if fate is not Fate.CONFIRMED:  # given back it would come again at once, and for ever
            _LOGGER.error("dead_letter_not_taken", call_id=run.call.call_id, reason=fate.name.lower())
        elif isinstance(response, Failed):
            self._told.buried(run, response)
        reach("letter.published")
        return True

    async def _send_on(self, run: Run, again: Again) -> None:
        """Publish the next generation, then settle. Nothing is held meanwhile."""
        call = again.call
        await self._local.ended(call.call_id)
        if run.lease is not None and not await run.lease.hand_over(call, again.pause):
            return
        route = self._transport.topology.delayed_call_route(call.provider_id, call.lane, again.pause)
        body = encode_call(call)
        while True:
            message = Message(body, "call", correlation_id=call.call_id, reply_to=run.next_mailbox())
            try:
                fate = await publish_confirmed(self._transport, route, message, until=call.deadline)
            except asyncio.CancelledError:
                if message.reply_to is not None:
                    run.wait_at(message.reply_to)
                raise
            if fate in (Fate.CLOSED, Fate.GIVEN_UP):
                run.nack()
                return
            if fate is not Fate.CONFIRMED:  # given back it would come again at once, and for ever
                _LOGGER.error("generation_not_taken", call_id=call.call_id, reason=fate.name.lower())
                if message.reply_to is not None:
                    run.wait_at(message.reply_to)
                await self.end(run, again.otherwise)
                return
            if not run.has_mailbox:
                if run.lease is not None:
                    await run.lease.handed()
                self._told.sent_on(run, again)
                run.ack()
                return
