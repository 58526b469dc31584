"""A worker's part of the ledger: claims each delivery before anything is started, and carries out what is recorded.

What is not the worker's to run is settled without a run: a reply is sent again, the next generation is published again,
or the call goes on through the delay ladder as a *watch copy*, the same generation for the same mailbox, due when the
lease of whoever runs it ends. So nothing spins and nobody needs to sweep: the copy finds the call ended, alive or dead.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from grundlag_bus.errors import StoreAwayError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.disposition import Dead, End, Policy, Start, StartAlone, before_run
from grundlag_bus.providers.oversight import Oversight
from grundlag_bus.schema.codec import digest
from grundlag_bus.schema.envelope import Call, Failed, Reply, encode_call, encode_reply
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, outcome_unknown
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.beside import Beside
from grundlag_bus.workers.confirmed import Fate, publish_confirmed
from grundlag_bus.workers.ledger.claims import Claim, Granted, NeedsTurn
from grundlag_bus.workers.ledger.failpoints import reach
from grundlag_bus.workers.ledger.lease import Lease
from grundlag_bus.workers.ledger.leases import Leases
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.presence import Presence
from grundlag_bus.workers.ledger.pruning import prune_now_and_then
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.ledger.verdicts import Behind, Held, Recorded, Reused, Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.alone import Alone
    from grundlag_bus.workers.intake import Intake
    from grundlag_bus.workers.ledger.claims import Claimed, Decide
    from grundlag_bus.workers.ledger.ledger import Ledger
    from grundlag_bus.workers.outbox import Outbox
    from grundlag_bus.workers.run import Run
    from grundlag_bus.workers.tombstones import Tombstones

PUBLISH_WITHIN = 60.0
"""Seconds that a watch copy or a generation is tried for, at least."""
PAUSE = 1.0
"""Seconds until what could not be sent on is given back."""
RELEASE_WITHIN = 3.0
"""Seconds that a worker which stops tries to give its leases back; they end by themselves too."""

_LOGGER = get_logger("grundlag_bus.workers")


class Keeping:
    """Serves a worker's calls by what is recorded of them."""

    def __init__(  # noqa: PLR0913, PLR0917  what a worker is made of
        self,
        ledger: Ledger,
        transport: Transport,
        registry: ProviderRegistry,
        outbox: Outbox,
        alone: Alone,
        intake: Intake,
        *,
        worker: str,
        cancelled: Tombstones,
    ) -> None:
        self._ledger = ledger
        self._transport = transport
        self._registry = registry
        self._outbox = outbox
        self._alone = alone
        self._intake = intake
        self._worker = worker
        self._cancelled = cancelled
        self._records = Records(ledger.store, ledger.lease)
        self._presence = Presence(ledger.store, gone=self._gone, back=self._back)
        self._leases = Leases(self._records, self._presence, lease=ledger.lease, owner=worker)
        self._to_entomb: set[str] = set()
        self._beside = Beside()

    @property
    def away(self) -> str | None:
        """Why the ledger's database does not serve, None while it does."""
        return self._presence.reason

    def open(self) -> None:
        self._leases.open()
        self._beside.do(prune_now_and_then(self._ledger.store, self._presence))

    async def close(self) -> None:
        """Give back the leases of calls that were not ended, as far as that is possible within a moment."""
        self._leases.close()
        self._beside.cancel()
        await self._presence.settle(within=RELEASE_WITHIN)
        with suppress(StoreAwayError, TimeoutError):
            async with asyncio.timeout(RELEASE_WITHIN):
                await self._leases.release()
        await self._presence.settle(within=RELEASE_WITHIN)

    def entomb(self, call_id: str) -> None:
        """Write down that a call was cancelled: it never starts, however late it comes."""
        if not self._to_entomb:
            self._beside.do(self._entomb())
        self._to_entomb.add(call_id)

    async def _entomb(self) -> None:
        await asyncio.sleep(0)  # what is told at once is written at once
        while self._to_entomb:
            call_ids = tuple(self._to_entomb)[:500]
            await self._presence.ask(lambda: self._records.entomb(call_ids))  # noqa: B023  awaited at once
            self._to_entomb.difference_update(call_ids)

    # --- serving ------------------------------------------------------------------------------------------------------

    async def serve(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        """Bring a call to its end here, by `begin` where it is to be started, or send it where it gets to one."""
        asked = digest([run.call.provider_id, run.call.action_id, run.call.user_id, run.call.request.to_json()])
        try:
            while not run.settled:
                await self._once(run, begin, asked)
        finally:
            self._alone.done(run)

    async def _once(self, run: Run, begin: Callable[[Run], Awaitable[None]], asked: str) -> None:
        reach("claim.before")
        since = asyncio.get_running_loop().time()
        match await self._claim(run, asked, alone=False):
            case NeedsTurn():
                await self._alone_then(run, begin, asked)
            case Granted() as granted:
                await self._under_lease(run, begin, granted, since)
            case other:
                await self._settle(run, other)

    async def _claim(self, run: Run, asked: str, *, alone: bool) -> Claimed:
        claim = Claim(run.call, asked, run.mailboxes, self._worker)
        decide = self._decide_for(run)
        return await self._presence.ask(
            lambda: self._records.claim(claim, decide, alone=alone), self._claimed_late(run)
        )

    async def _alone_then(self, run: Run, begin: Callable[[Run], Awaitable[None]], asked: str) -> None:
        self._alone.hold(run)
        try:
            # Without its turn it was cancelled or its deadline passed: which of the two, is decided as it is claimed.
            await self._alone.turn(run, left=run.call.deadline - self._transport.now())
        finally:
            self._alone.release(run)
        since = asyncio.get_running_loop().time()
        match await self._claim(run, asked, alone=True):
            case Granted() as granted:
                await self._under_lease(run, begin, granted, since)
            case NeedsTurn():
                raise AssertionError("it has its turn")
            case other:
                await self._settle(run, other)

    def _claimed_late(self, run: Run) -> Callable[[Claimed], None]:
        def give_back(claimed: Claimed) -> None:
            if isinstance(claimed, Granted) and not run.muted:
                self._leases.give_back(Hold(run.call.call_id, claimed.fence))

        return give_back

    def _decide_for(self, run: Run) -> Decide:
        def decide(
            call: Call, /, *, lost: int, alone_at: int | None, entombed: bool
        ) -> Start | StartAlone | End | Dead:
            policy = self.policy(run)
            if entombed or run.oversight.cancelled or run.call.call_id in self._cancelled:
                if lost:  # whoever had it may live, out of sight, and its action may run on
                    return End(outcome_unknown(call, "it was cancelled after its worker was lost", published=True))
                return End(cancelled(call, published=run.begun or call.generation > 1))
            if run.begun and not policy.rerun:
                told = "its worker could not hold on to it, and it may not be started again"
                return End(outcome_unknown(call, told, published=True))
            if lost and call.deadline <= self._transport.now():
                return End(deadline_exceeded(call, published=True))
            return before_run(call, policy, lost=lost, alone_at=alone_at)

        return decide

    def policy(self, run: Run) -> Policy:
        action = self._registry.find(run.call.provider_id, run.call.action_id)
        return Policy() if action is None else action.policy

    async def _under_lease(
        self, run: Run, begin: Callable[[Run], Awaitable[None]], granted: Granted, since: float
    ) -> None:
        run.call = granted.call
        lease = Lease(run, granted.fence, self._records, self._presence, self._ledger.store, since + self._ledger.lease)
        run.lease = run.oversight.lease = lease
        self._leases.add(lease)
        reach("claim.granted")
        try:
            match granted.decision:
                case Start() | StartAlone():
                    await begin(run)
                case ended:
                    run.over = True
                    await self._outbox.carry_out(run, ended)
        finally:
            await lease.close()
        self.forget(run)
        if not run.settled:  # the lease was lost, or in danger: what is recorded now decides
            run.over = False
            sink = run.oversight.sink
            run.oversight = Oversight(sink)
            run.oversight.may_have_run = True

    def forget(self, run: Run) -> None:
        """Hold the run's lease no more."""
        if run.lease is not None:
            self._leases.drop(run.lease)
            run.lease = None

    async def give_back(self, run: Run) -> None:
        """Give a call back that was not ended here, so that another worker may have it at once."""
        self.forget(run)
        if not run.muted:
            with suppress(StoreAwayError, TimeoutError):
                async with asyncio.timeout(RELEASE_WITHIN):
                    await self._leases.release()
        run.nack()

    # --- what is not run ----------------------------------------------------------------------------------------------

    async def _settle(self, run: Run, verdict: Verdict) -> None:
        run.over = True
        match verdict:
            case Recorded():
                await self._outbox.send_again(run, verdict, partial(self._buried, run))
            case Held(seconds):
                await self._park(run, seconds)
            case Behind():
                await self._catch_up(run, verdict)
            case Reused():
                call_id = run.call.call_id
                told = f"Another call has had the id {call_id}: give each its own."
                reply = Reply(call_id, Failed("call_id_reused", told), self._worker)
                await self._outbox.reply(run, encode_reply(reply))
                run.ack()
            case _:
                raise AssertionError(verdict)

    async def _park(self, run: Run, seconds: float) -> None:
        """Let the call come again when the lease of whoever has it ends, and settle this delivery."""
        _LOGGER.debug("call_is_held", call_id=run.call.call_id, seconds=seconds)
        envelope = encode_call(run.call)
        while await self._publish(run, envelope, seconds, run.next_mailbox()):
            reach("watch.published")
            if not run.has_mailbox:
                run.ack()
                return

    async def _catch_up(self, run: Run, behind: Behind) -> None:
        """Publish the next generation where it may not be, and settle the one before it."""
        known = run.mailboxes
        for mailbox in behind.mailboxes:
            if not await self._publish(run, behind.next_call, behind.seconds, mailbox):
                return
        if behind.mailboxes:
            hold = Hold(run.call.call_id, behind.fence)
            await self._presence.ask(lambda: self._records.handed(hold))
        if run.mailboxes == known:  # else it came again meanwhile, from somebody else
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
            _LOGGER.error("watch_copy_not_taken", call_id=call.call_id, reason=fate.name.lower())
            await asyncio.sleep(PAUSE)  # given back it comes again at once
        run.nack()
        return False

    async def _buried(self, run: Run) -> None:
        await self._presence.ask(lambda: self._records.buried(run.call.call_id))

    # --- while the database is away -----------------------------------------------------------------------------------

    async def _gone(self) -> None:
        await self._intake.pause("ledger")

    async def _back(self) -> None:
        with suppress(StoreAwayError):
            await self._leases.renew()
            await self._leases.release()
        self._intake.resume("ledger")
