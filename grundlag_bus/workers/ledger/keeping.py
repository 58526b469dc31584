"""A worker's part of the ledger: claims each delivery before anything is started, and carries out what is recorded.

What is not the worker's to run is settled without a run (`settling`). In a lane that says so, a call is settled before
it is run: a *watch copy* looks after it meanwhile (`copies`), so that it holds nothing of the broker's, however long it
takes. A worker that stops gives it back and sends a copy at once: it costs the call neither an attempt nor a crash.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.errors import StoreAwayError
from grundlag_bus.providers.disposition import Dead, End, Policy, Start, StartAlone, before_run
from grundlag_bus.providers.oversight import Oversight
from grundlag_bus.schema.codec import digest
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, outcome_unknown
from grundlag_bus.workers.beside import Beside
from grundlag_bus.workers.ledger.claims import Claim, Granted, NeedsTurn
from grundlag_bus.workers.ledger.copies import WatchCopies
from grundlag_bus.workers.ledger.failpoints import reach
from grundlag_bus.workers.ledger.lease import Lease
from grundlag_bus.workers.ledger.leases import Leases
from grundlag_bus.workers.ledger.long_records import LongRecords
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.presence import Presence
from grundlag_bus.workers.ledger.pruning import prune_now_and_then
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.ledger.settling import Settling
from grundlag_bus.workers.ledger.verdicts import Behind, Held, Verdict, Watched
from grundlag_bus.workers.run import mailbox_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.telemetry import Hook
    from grundlag_bus.transport.base import Delivery, Transport
    from grundlag_bus.workers.alone import Alone
    from grundlag_bus.workers.intake import Intake
    from grundlag_bus.workers.ledger.claims import Claimed, Decide
    from grundlag_bus.workers.ledger.ledger import Ledger
    from grundlag_bus.workers.outbox import Outbox
    from grundlag_bus.workers.room import Room
    from grundlag_bus.workers.run import Run
    from grundlag_bus.workers.tombstones import Tombstones

RELEASE_WITHIN = 3.0
"""Seconds that a worker which stops tries to give its leases back; they end by themselves too."""
OTHERS_WITHIN = 3.0
"""Seconds that other workers get to give back what they had, when the database serves again: longer than they look."""


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
        room: Room,
        *,
        worker: str,
        cancelled: Tombstones,
        hook: Hook,
    ) -> None:
        self._ledger = ledger
        self._transport = transport
        self._registry = registry
        self._room = room
        self._outbox = outbox
        self._alone = alone
        self._intake = intake
        self._worker = worker
        self._cancelled = cancelled
        self._records = Records(ledger.store, ledger.lease)
        self._long_records = LongRecords(ledger.store)
        self._presence = Presence(ledger.store, gone=self._gone, back=self._back, hook=hook)
        self._leases = Leases(self._records, self._presence, lease=ledger.lease, owner=worker)
        self._copies = WatchCopies(transport, self._long_records, self._presence, lease=ledger.lease)
        self._settling = Settling(
            transport, outbox, self._records, self._long_records, self._copies, self._presence, worker=worker
        )
        self._to_entomb: set[str] = set()
        self._beside = Beside()

    @property
    def away(self) -> str | None:
        """Why the ledger's database does not serve, None while it does."""
        return self._presence.reason

    @property
    def leases(self) -> tuple[int, float]:
        """How many calls are leased here, and for how many seconds the oldest of them is; in any thread."""
        return len(self._leases), self._leases.oldest

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
        try:
            while not run.settled:
                await self._once(run, begin)
        finally:
            self._alone.done(run)

    async def _once(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        reach("claim.before")
        claim, known = self._claim_of(run.call, run.mailboxes, run.copies), run.known
        since = asyncio.get_running_loop().time()
        match await self._claim(run, claim, alone=False):
            case NeedsTurn() if not run.early:
                await self._alone_then(run, begin)
            case Granted() as granted:
                await self._under_lease(run, begin, granted, since)
            case other:
                await self._settle(run, known, other)

    def _claim_of(self, call: Call, mailboxes: tuple[str, ...], copies: Collection[str]) -> Claim:
        asked = digest([call.provider_id, call.action_id, call.user_id, call.request.to_json()])
        return Claim(call, asked, mailboxes, self._worker, self._room.bounds(call), copies)

    async def _settle(self, run: Run, known: object, verdict: NeedsTurn | Verdict) -> None:
        if run.early or isinstance(verdict, NeedsTurn):  # nothing of it is in hand: its watch copy looks after it
            run.ack()
        else:
            await self._settling.settle(run, verdict, known, early=self._room.bounds(run.call))

    async def _claim(self, run: Run, claim: Claim, *, alone: bool) -> Claimed:
        decide = self._decide_for(run)
        return await self._presence.ask(
            lambda: self._records.claim(claim, decide, alone=alone), self._claimed_late(run)
        )

    async def _alone_then(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        self._alone.hold(run)
        try:
            # Without its turn it was cancelled or its deadline passed: which of the two, is decided as it is claimed.
            await self._alone.turn(run, left=run.call.deadline - self._transport.now())
        finally:
            self._alone.release(run)
        claim, known = self._claim_of(run.call, run.mailboxes, run.copies), run.known
        since = asyncio.get_running_loop().time()
        match await self._claim(run, claim, alone=True):
            case Granted() as granted:
                await self._under_lease(run, begin, granted, since)
            case NeedsTurn():
                raise AssertionError("it has its turn")
            case other:
                await self._settle(run, known, other)

    def _claimed_late(self, run: Run) -> Callable[[Claimed], None]:
        def give_back(claimed: Claimed) -> None:
            if isinstance(claimed, Granted) and not run.muted:
                self._leases.give_back(Hold(run.call.call_id, claimed.fence))

        return give_back

    def _decide_for(self, run: Run) -> Decide:
        def decide(
            call: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool
        ) -> Start | StartAlone | End | Dead:
            policy, begun = self.policy(run), run.begun or started
            if entombed or run.oversight.cancelled or run.call.call_id in self._cancelled:
                if lost:  # whoever had it may live, out of sight, and its action may run on
                    return End(outcome_unknown(call, "it was cancelled after its worker was lost", published=True))
                return End(cancelled(call, published=begun or call.generation > 1))
            if begun and not policy.rerun:
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
        for mailbox in granted.mailboxes:
            run.wait_at(mailbox)
        lease = Lease(
            run,
            granted,
            self._records,
            self._long_records,
            self._presence,
            self._ledger.store,
            until=since + self._ledger.lease,
            early=self._room.bounds(run.call),
        )
        run.lease = run.oversight.lease = lease
        self._leases.add(lease)
        reach("claim.granted")
        try:
            match granted.decision:
                case Start() | StartAlone():
                    if await self._settled_early(run, lease):
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

    async def _settled_early(self, run: Run, lease: Lease) -> bool:
        """Settle a call that begins, if its lane says so; False: that cannot be now, and it is given back."""
        if not lease.early or run.early:
            return True
        if not await self._copies.begin(run.call, lease.hold):
            run.nack()
            return False
        await self._room.count(run)
        run.settle_early()
        reach("early.settled")
        return True

    def look_after(self, run: Run, call: Call, delivery: Delivery, otherwise: Callable[[], None]) -> None:
        """Settle what comes of a call that was settled early and runs here: as a rule, its watch copy.

        otherwise: called for what is to wait for the run's end.
        """
        mailbox = mailbox_of(delivery)
        if mailbox is not None:
            run.wait_at(mailbox)
        copies = () if call.copy is None else (call.copy,)
        claim = self._claim_of(call, () if mailbox is None else (mailbox,), copies)
        self._beside.do(self._look_after(claim, delivery, otherwise))

    async def _look_after(self, claim: Claim, delivery: Delivery, otherwise: Callable[[], None]) -> None:
        match await self._presence.ask(lambda: self._records.look(claim)):
            case Held() as held:
                if await self._copies.go_on(claim.call, held):
                    delivery.ack()
                else:
                    delivery.nack()
            case Watched() | Behind(mailboxes=()):
                delivery.ack()
            case _:
                otherwise()

    def forget(self, run: Run) -> None:
        """Hold the run's lease no more."""
        if run.lease is not None:
            self._leases.drop(run.lease)
            run.lease = None

    async def give_back(self, run: Run) -> None:
        """Give a call back that was not ended here, so that another worker may have it at once."""
        lease = run.lease
        self.forget(run)
        if not run.muted:
            with suppress(StoreAwayError, TimeoutError):
                async with asyncio.timeout(RELEASE_WITHIN):
                    await self._leases.release()
                    if run.early and lease is not None and not lease.concluded:
                        await self._bring_forward(run.call, lease)
        run.nack()

    async def _bring_forward(self, call: Call, lease: Lease) -> None:
        """Let another worker have a call at once, and not only when its watch copy comes."""
        await self._presence.once(self._records.release([lease.hold]))  # which another run's end may be at just now
        reach("drain.released")
        await self._copies.send(replace(call, copy=None), 0, within=RELEASE_WITHIN)
        reach("drain.published")

    # --- while the database is away -----------------------------------------------------------------------------------

    async def _gone(self) -> None:
        await self._intake.pause("ledger")

    async def _back(self) -> None:
        with suppress(StoreAwayError):
            await self._leases.renew()
            await self._leases.release()
        self._beside.do(self._take_again())

    async def _take_again(self) -> None:
        await asyncio.sleep(OTHERS_WITHIN)  # what they have not given back by then counts as lost
        if self._presence.reason is None:
            self._intake.resume("ledger")
