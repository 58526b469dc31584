"""What a worker does with a call that comes back: starts it, starts it alone, or ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.errors import BusUnreachableError, GrundlagError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.disposition import Dead, End, Policy, Start, StartAlone, before_run
from grundlag_bus.tools.endings import cancelled, deadline_exceeded
from grundlag_bus.workers.confirmed import Fate
from grundlag_bus.workers.lone_starts import LoneStarts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.alone import Alone
    from grundlag_bus.workers.outbox import Outbox
    from grundlag_bus.workers.run import Run

NOTE_WITHIN = 10.0
"""Seconds until a start that could not be written down is given up, and the call given back."""

PAUSE = 1.0
"""Seconds until what cannot be decided is given back."""

Decision = Start | StartAlone | End | Dead | None
"""None: the bus does not tell what a decision needs."""

_MOST_WAITED = 1000

_WHY = {
    Fate.FORBIDDEN: "this user may not write to the broker's default exchange, through which a worker notes that it "
    "starts a call alone: give it write permission on amq.default too; without it a call whose workers die is given up "
    "by their number, whoever killed them"
}

_LOGGER = get_logger("grundlag_bus.workers")


class _Newest:
    """The newest of many ids."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, None] = {}

    def add(self, id: str) -> bool:  # noqa: A002  the word
        """Keep an id, and say whether it is new."""
        if id in self._kept:
            return False
        self._kept[id] = None
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return True


class Returned:
    """Serves the calls that were handed out before."""

    def __init__(
        self, transport: Transport, registry: ProviderRegistry, outbox: Outbox, alone: Alone, *, worker: str
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._outbox = outbox
        self._alone = alone
        self._lone_starts = LoneStarts(transport, worker)
        self._waited = _Newest(_MOST_WAITED)

    async def serve(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        """Bring the call to its end, by `begin` where it is to be started."""
        self._alone.hold(run)
        try:
            lost = -1
            decision: Decision = StartAlone()
            while isinstance(decision, StartAlone) and lost != run.lost:  # it may come again while it waits
                lost = run.lost
                decision = await self._decide(run)
                if isinstance(decision, StartAlone) and not await self._has_turn(run):
                    ended = cancelled if run.oversight.cancelled else deadline_exceeded
                    decision = End(ended(run.call, published=True))
            if isinstance(decision, Start | StartAlone) and not run.held:
                run.nack()  # it was lost while it waited here: whoever has it now starts it
                return
            if isinstance(decision, StartAlone):
                decision = await self._noted(run)
            await self._do(run, decision, begin)
        finally:
            self._alone.release(run)
            self._alone.done(run)

    def policy(self, run: Run) -> Policy:
        """Return what the call's action allows; of an unknown one, what is allowed where nothing is said."""
        action = self._registry.find(run.call.provider_id, run.call.action_id)
        return Policy() if action is None else action.policy

    async def _decide(self, run: Run) -> Decision:
        call, policy = run.call, self.policy(run)
        if not self._transport.broker.counts_only_losses:
            return before_run(call, policy, lost=None)
        decision = before_run(call, policy, lost=run.lost)
        if isinstance(decision, StartAlone) and run.lost >= policy.crashes:
            try:
                alone = await self._lone_starts.last(call)
            except (BusUnreachableError, TransportClosedError):
                return None
            except GrundlagError as error:
                return self._by_count(run, str(error))
            if alone is not None:
                return before_run(call, policy, lost=run.lost, alone_at=alone.lost, alone_in=alone.worker)
        return decision

    def _by_count(self, run: Run, reason: str) -> Decision:
        """Decide as if every start had been alone: what cannot be written down would be started without end."""
        _LOGGER.error("lone_starts_unusable", call_id=run.call.call_id, reason=reason)
        return before_run(run.call, self.policy(run), lost=run.lost, alone_at=0)

    async def _has_turn(self, run: Run) -> bool:
        if self._waited.add(run.call.call_id):
            _LOGGER.info("call_waits_to_run_alone", call_id=run.call.call_id, lost=run.lost)
        return await self._alone.turn(run, left=run.call.deadline - self._transport.now())

    async def _noted(self, run: Run) -> Decision:
        """Write down that it is started alone, and decide anew where that is not possible."""
        try:
            fate = await self._lone_starts.note(run.call, lost=run.lost, within=NOTE_WITHIN)
        except (BusUnreachableError, TransportClosedError):
            return None
        except GrundlagError as error:
            return self._by_count(run, str(error))
        match fate:
            case Fate.CONFIRMED:
                return StartAlone()
            case Fate.CLOSED | Fate.GIVEN_UP:
                return None
        return self._by_count(run, _WHY.get(fate, fate.name.lower()))

    async def _do(self, run: Run, decision: Decision, begin: Callable[[Run], Awaitable[None]]) -> None:
        match decision:
            case None:
                await asyncio.sleep(PAUSE)  # given back it comes again at once
                run.nack()
            case Start() | StartAlone():
                self._alone.release(run)
                await begin(run)
            case _:
                run.over = True
                await self._outbox.carry_out(run, decision)
