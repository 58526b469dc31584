"""What a worker does with a call that comes back: starts it, starts it alone, or ends it."""

from __future__ import annotations

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

_LOGGER = get_logger("grundlag_bus.workers")


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

    async def serve(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        """Bring the call to its end, by `begin` where it is to be started."""
        self._alone.hold(run)
        try:
            match await self._decide(run):
                case None:
                    run.nack()
                case Start():
                    self._alone.release(run)
                    await begin(run)
                case StartAlone():
                    await self._start_alone(run, begin)
                case decision:
                    await self._end(run, decision)
        finally:
            self._alone.release(run)

    def policy(self, run: Run) -> Policy:
        """Return what the call's action allows; of an unknown one, what is allowed where nothing is said."""
        action = self._registry.find(run.call.provider_id, run.call.action_id)
        return Policy() if action is None else action.policy

    async def _decide(self, run: Run) -> Start | StartAlone | End | Dead | None:
        """Decide, or return None where the bus does not tell what that needs."""
        call, policy = run.call, self.policy(run)
        if not self._transport.broker.counts_only_losses:
            return before_run(call, policy, lost=None)
        decision = before_run(call, policy, lost=run.lost)
        if isinstance(decision, StartAlone) and run.lost >= policy.crashes:
            try:
                alone_at = await self._lone_starts.last(call)
            except (BusUnreachableError, TransportClosedError):
                return None
            except GrundlagError as error:
                return self._by_count(run, str(error))
            return before_run(call, policy, lost=run.lost, alone_at=alone_at)
        return decision

    def _by_count(self, run: Run, reason: str) -> Start | StartAlone | End | Dead:
        """Decide as if every start had been alone: what cannot be written down would be started without end."""
        _LOGGER.error("lone_starts_unusable", call_id=run.call.call_id, reason=reason)
        return before_run(run.call, self.policy(run), lost=run.lost, alone_at=0)

    async def _start_alone(self, run: Run, begin: Callable[[Run], Awaitable[None]]) -> None:
        _LOGGER.info("call_waits_to_run_alone", call_id=run.call.call_id, lost=run.lost)
        try:
            if not await self._alone.turn(run, left=run.call.deadline - self._transport.now()):
                ended = cancelled if run.oversight.cancelled else deadline_exceeded
                await self._end(run, End(ended(run.call, published=True)))
                return
            match await self._note(run):
                case None:
                    run.nack()
                case End() | Dead() as decision:
                    await self._end(run, decision)
                case _:
                    self._alone.release(run)
                    await begin(run)
        finally:
            self._alone.done(run)

    async def _note(self, run: Run) -> Start | StartAlone | End | Dead | None:
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
        return self._by_count(run, fate.name.lower())

    async def _end(self, run: Run, disposition: End | Dead) -> None:
        run.over = True
        await self._outbox.carry_out(run, disposition)
