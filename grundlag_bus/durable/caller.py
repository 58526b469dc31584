"""Calls of runs: recorded, published, awaited, in any order of hosts and processes.

Rules:
- A call is recorded before it is published, and again when the broker has it.
- One that was recorded and not confirmed may be on the broker. It is published again as it was, where its provider has
  a ledger or its action is idempotent, and otherwise nobody can tell how it ended.
- Its reply counts once it is recorded, by whichever host; the first one counts.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.adapters.cancels import Cancels
from grundlag_bus.adapters.unsent import may_be_sent_again, unsent
from grundlag_bus.adapters.waiting import Waiting
from grundlag_bus.durable.active import current
from grundlag_bus.durable.failpoints import reach
from grundlag_bus.durable.records import LeftError
from grundlag_bus.errors import StoreAwayError, TopologyMismatchError, TransportClosedError, TransportError
from grundlag_bus.schema.envelope import Call, Failed, Reply, Response, encode_call
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, ended_here, outcome_unknown
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from grundlag_bus.durable.active import ActiveRun
    from grundlag_bus.durable.call_records import CallRecords, RecordedCall
    from grundlag_bus.durable.writes import Writes
    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.transport.base import Transport

LEEWAY = 5.0
"""Seconds in which a reply is still taken after a call's deadline, or after a host has begun to read the mailbox."""
CANCEL_WITHIN = 15.0
"""Seconds that a cancelled call's reply is waited for: longer than an action gets to stop."""


class RunCaller:
    """See `Caller`; for calls that are made where `current` is set.

    mailbox: that of the store; without_ledger: whether calls are sent that may run twice when a host dies.
    """

    def __init__(
        self, transport: Transport, records: CallRecords, writes: Writes, *, mailbox: str, without_ledger: bool
    ) -> None:
        self._transport = transport
        self._records = records
        self._writes = writes
        self._mailbox = mailbox
        self._without_ledger = without_ledger
        self._expected: dict[str, asyncio.Future[Reply]] = {}
        self._sent_here: set[str] = set()
        self._cancels = Cancels(transport)
        self._since = 0.0

    def begin(self) -> None:
        """Take note that the mailbox is read from now on."""
        self._since = self._transport.now()

    async def close(self) -> None:
        await self._cancels.close()

    @property
    def expected(self) -> tuple[str, ...]:
        """The calls whose replies are waited for here."""
        return tuple(self._expected)

    def hear(self, reply: Reply) -> bool:
        """Take a reply that is recorded, and return whether it was waited for here."""
        self._sent_here.discard(reply.call_id)
        expected = self._expected.get(reply.call_id)
        if expected is None or expected.done():
            return False
        expected.set_result(reply)
        return True

    async def call(
        self,
        call: Call,
        *,
        on_progress: ProgressSink | None = None,  # noqa: ARG002  a run may be anywhere when its call tells something
        cancel: asyncio.Event | None = None,  # noqa: ARG002  a run is cancelled as a whole
    ) -> Reply:
        """See `Caller.call`. Being cancelled leaves the call as it is. Raises LeftError."""
        active = current.get()
        if not (call.idempotent or self._without_ledger):
            return ended_here(call, _needs_ledger(call))
        expected = self._expected[call.call_id] = asyncio.get_running_loop().create_future()
        try:
            with active.expecting(call.call_id):
                with active.busy():
                    deadline = await self._send(active, call)
                return deadline if isinstance(deadline, Reply) else await self._reply(active, call, deadline, expected)
        except (StoreAwayError, TransportClosedError) as error:
            raise LeftError(str(error)) from error
        finally:
            if self._expected.get(call.call_id) is expected:
                del self._expected[call.call_id]

    async def _send(self, active: ActiveRun, call: Call) -> Reply | float:
        """Bring a call onto the broker where it is not, and return its deadline, or how it ended."""
        result = active.reuse.take(call)
        response = cancelled(call, published=False) if result is None and active.closing else result
        known = None if response is None else _reply(call, response)
        recorded = await self._writes.do(self._records.record(active.hold, call, known))
        if recorded.is_new:
            reach("call.recorded")
        elif result is not None:
            active.reuse.give_back(call, result)
        if recorded.reply is not None:
            return recorded.reply
        if active.closing:
            self._cancels.send(call.call_id)
            return self._transport.now() + CANCEL_WITHIN - LEEWAY
        forgotten = self._transport.embedded and call.call_id not in self._sent_here
        if recorded.published and not forgotten:
            return recorded.call.deadline
        return await self._publish(call, recorded)

    async def _publish(self, call: Call, recorded: RecordedCall) -> Reply | float:
        if not recorded.is_new:
            if not call.idempotent:
                return await self._end(call, outcome_unknown(call, "its host ended as it was sent", published=None))
            call = replace(recorded.call, deadline=call.deadline, sent_at=call.sent_at, idempotent=True)
            await self._writes.do(self._records.renew(call))
        waiting = Waiting(call, encode_call(call), asyncio.get_running_loop().create_future(), None, due=None)
        topology = self._transport.topology
        route = topology.call_route(call.provider_id, call.lane)
        message = Message(waiting.body, "call", correlation_id=call.call_id, reply_to=self._mailbox)
        while True:
            try:
                await self._transport.publish(route, message, deadline=call.deadline, written=waiting.was_written)
            except TransportClosedError:
                raise
            except (TransportError, TopologyMismatchError) as error:
                if may_be_sent_again(error, call, now=self._transport.now()):
                    continue
                return await self._end(call, unsent(error, waiting, self._transport))
            break
        self._sent_here.add(call.call_id)
        reach("call.published")
        await self._writes.do(self._records.published(call.call_id))
        reach("call.confirmed")
        return call.deadline

    async def _reply(self, active: ActiveRun, call: Call, deadline: float, expected: asyncio.Future[Reply]) -> Reply:
        left = max(deadline, self._since) + LEEWAY - self._transport.now()
        await asyncio.wait({expected}, timeout=left)
        if expected.done():
            return expected.result()
        if active.closing:
            told = "it was cancelled, and no worker said in time that it has stopped"
            return await self._end(call, outcome_unknown(call, told, published=True))
        return await self._end(call, deadline_exceeded(call, published=True))

    async def _end(self, call: Call, response: Response) -> Reply:
        return await self._writes.do(self._records.end(_reply(call, response)))


def _reply(call: Call, response: Response) -> Reply:
    return Reply(call.call_id, response, "caller", call.generation, call.attempt)


def _needs_ledger(call: Call) -> Failed:
    return Failed(
        "forbidden",
        f"Provider {call.provider_id!r} has no ledger, and a run's call of {call.action_id} could run twice: start its "
        "workers with one, declare the action idempotent, or make the host with without_ledger=True.",
    )
