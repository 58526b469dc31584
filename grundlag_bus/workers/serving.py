"""A delivery's way through a worker: run the call here, reply, and only then settle.

Decode, run in an asyncio task that the worker owns, publish the reply, wait for its confirm, ack. Prefetch equals
concurrency, so that whatever is delivered is started at once and nothing waits inside a worker.

Rules:
- A delivery is acked when its reply is confirmed, or when nobody can be replied to.
- A call that is delivered again while it runs here (its connection was lost, or its caller sent it again) is adopted:
  it runs once, and all its deliveries are settled together. One that has just finished here is replied to again.
- A cancelled call is not started, and stopped where it runs; its reply tells when it has stopped, or that it does not.
- With a ledger, what is recorded of a call decides what is done with each delivery of it (`ledger.keeping`). Calls of
  lane `long` are then settled when they begin, and keep their places here until they end (`room`).
- Only then its budget of crashes is looked at: see `disposition` for what is decided, `alone` for how the last start is
  made. An action with `rerun=False` that is stopped with the worker is settled, as one whose outcome is unknown.
- A call of an action that only other workers have is sent on to them, after a pause (`absent`).
- What goes on although it was to end is settled before the broker would have it started elsewhere (`overdue`).
- The next generation of a call that is still being settled here waits until that is done.
- What is not finished when the worker stops is given back unsettled, without a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from typing import TYPE_CHECKING

from grundlag_bus.errors import EnvelopeError, GrundlagError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers import failures
from grundlag_bus.schema.envelope import Call, Failed, Reply, encode_reply
from grundlag_bus.tools.endings import cancelled, outcome_unknown
from grundlag_bus.workers.absent import Absent
from grundlag_bus.workers.alone import Alone
from grundlag_bus.workers.beside import Beside
from grundlag_bus.workers.decoded import decoded
from grundlag_bus.workers.intake import Intake
from grundlag_bus.workers.outbox import Outbox
from grundlag_bus.workers.overdue import Overdue
from grundlag_bus.workers.reports import Reports
from grundlag_bus.workers.returned import Returned
from grundlag_bus.workers.room import Room
from grundlag_bus.workers.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from grundlag_bus.providers.disposition import Disposition
    from grundlag_bus.providers.local import LocalCaller
    from grundlag_bus.transport.base import Delivery, Transport
    from grundlag_bus.workers.ledger import Ledger
    from grundlag_bus.workers.ledger.keeping import Keeping
    from grundlag_bus.workers.share import Share
    from grundlag_bus.workers.told import Told
    from grundlag_bus.workers.tombstones import Tombstones

STOP_WITHIN = 5.0
"""Seconds that calls get to end once they are cancelled."""

_LOGGER = get_logger("grundlag_bus.workers")


class Serving:
    """Takes a worker's deliveries to their end.

    cancelled: the ids of calls that are not to start; cancel_grace: seconds that an action gets to stop; renewed:
    called when a queue had to be made anew. runs: the calls that run here, by id; started: these, and what is only
    replied to.
    """

    def __init__(  # noqa: PLR0913  what a worker is made of
        self,
        transport: Transport,
        share: Share,
        local: LocalCaller,
        told: Told,
        *,
        name: str,
        cancelled: Tombstones,
        cancel_grace: float,
        renewed: Callable[[], None],
        ledger: Ledger | None = None,
    ) -> None:
        self.runs: dict[str, Run] = {}
        self.started: set[Run] = set()
        self.intake = Intake(transport, share, receive=self._receive, renewed=renewed)
        self._transport = transport
        self._registry = local.registry
        self._local = local
        self._told = told
        self._name = name
        self._cancelled = cancelled
        self._cancel_grace = cancel_grace
        self._outbox = Outbox(transport, local, name, told)
        self._alone = Alone(self.intake, self.started)
        self._returned = Returned(transport, local.registry, self._outbox, self._alone, worker=name)
        self._absent = Absent(transport)
        self._overdue = Overdue(self.started, timeout_of=share.timeout_of, tell=self._tell_unknown)
        self._beside = Beside()
        self._room = Room(self.intake, share, self.runs)
        self._keeping: Keeping | None = None
        if ledger is not None:
            from grundlag_bus.workers.ledger.keeping import Keeping  # noqa: PLC0415  it loads SQLAlchemy

            self._keeping = Keeping(
                ledger,
                transport,
                local.registry,
                self._outbox,
                self._alone,
                self.intake,
                self._room,
                worker=name,
                cancelled=cancelled,
                hook=told.hook,
            )
        self._context = contextvars.copy_context()

    async def open(self) -> None:
        """Take calls, under the context variables of now. Raises as `Transport.subscribe` does."""
        self._context = contextvars.copy_context()
        self._alone.open()
        self._beside.do(self._overdue.watch())
        if self._keeping is not None:
            self._keeping.open()
        await self.intake.open()

    @property
    def ledger_away(self) -> str | None:
        """Why the ledger does not serve, None while it does and where there is none."""
        return None if self._keeping is None else self._keeping.away

    @property
    def leases(self) -> tuple[int, float]:
        """How many calls are leased here, and for how many seconds the oldest of them is."""
        return (0, 0.0) if self._keeping is None else self._keeping.leases

    async def drain(self, grace: float) -> None:
        """Take nothing more, give what runs its grace time (seconds), stop the rest, and give back what has not ended.

        Cancelled, this does the same without the grace time.
        """
        self._alone.close()
        try:
            await self.intake.stop()
            await self._all_ended(within=grace)
        finally:
            try:
                for run in list(self.started):
                    run.stop()
                await self._all_ended(within=STOP_WITHIN)
                await asyncio.gather(*(self._stopped(run) for run in self.started))
            finally:
                self._beside.cancel()
                if self._keeping is not None:
                    await self._keeping.close()
                self._room.close()
                await self.intake.close()

    async def abort(self) -> None:
        """Stop as if the process were killed: what runs is cancelled, nothing is replied, all is given back."""
        for run in list(self.started):
            run.mute()
        await self.intake.close()

    def cancel(self, call_id: str) -> None:
        """Stop a call that runs here, and say so when it does not stop."""
        if self._keeping is not None:
            self._keeping.entomb(call_id)
        run = self.runs.get(call_id)
        if run is not None and not run.over and not run.oversight.cancelled:
            run.oversight.cancel()
            self._beside.do(self._tell_overdue(run))

    async def _all_ended(self, *, within: float) -> None:
        serving = [run.serving for run in self.started]
        if serving:
            await asyncio.wait(serving, timeout=within)

    def _receive(self, provider_id: str, lane: str, delivery: Delivery) -> None:
        try:
            call = decoded(delivery.message.body, provider_id, lane)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, worker=self._name)
            self._told.refused(error.reason)
            delivery.reject()
            return
        self._take(call, delivery)

    def _take(self, call: Call, delivery: Delivery) -> None:
        running = self.runs.get(call.call_id)
        if running is None and not self._room.has(call):
            self._room.give_back(call, delivery)
        elif running is None:
            reply = self._outbox.finished.reply_to(call) if delivery.redelivered else None
            run = Run(call, delivery)
            if reply is not None:
                self._start(run, self._only_reply(run, reply))
            elif self._keeping is None and call.call_id in self._cancelled:
                self._start(run, self._end_cancelled(run))
            else:
                self.runs[call.call_id] = run
                self._start(run, self._serve(run))
        elif not running.call.asks_the_same_as(call):
            run = Run(call, delivery)
            self._start(run, self._refuse(run))
        elif running.settled or call.generation > running.call.generation:
            running.later.append((call, delivery))  # it overtook the end of the one before
        elif running.early and self._keeping is not None:
            self._keeping.look_after(running, call, delivery, lambda: self._wait_for(running, call, delivery))
        else:
            running.adopt(delivery, copy=call.copy)

    def _wait_for(self, run: Run, call: Call, delivery: Delivery) -> None:
        """Take what is to wait for the end of a run."""
        if run in self.started:
            run.later.append((call, delivery))
        elif self._local.drain.begun:
            delivery.nack()
        else:
            self._take(call, delivery)

    def _start(self, run: Run, work: Coroutine[None, None, None]) -> None:
        # Under the worker's context variables: a transport in memory calls here under those of whoever published.
        run.serving = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self.started.add(run)
        run.serving.add_done_callback(lambda _: self._ended(run))

    def _ended(self, run: Run) -> None:
        """Forget a run, however it ended, and take what waited for that."""
        if run.lease is not None and self._keeping is not None:
            self._keeping.forget(run)
        self.started.discard(run)
        if self.runs.get(run.call.call_id) is run:
            del self.runs[run.call.call_id]
            self._room.freed(run.call)
        for call, delivery in run.later:
            if run.stopping:
                delivery.nack()
            else:
                self._take(call, delivery)

    async def _tell_overdue(self, run: Run) -> None:
        await asyncio.sleep(self._cancel_grace)
        if not run.over and not run.stopping:
            await self._tell_unknown(run, f"it was cancelled, and did not stop within {self._cancel_grace:g} s")

    async def _tell_unknown(self, run: Run, why: str) -> None:
        response = outcome_unknown(run.call, why, published=True)
        await self._outbox.reply(run, encode_reply(self._local.reply(run.call, response)))

    async def _end_cancelled(self, run: Run) -> None:
        """Reply to a call that was cancelled before it came here.

        Whoever had it and was lost may live, out of the broker's sight, and its action may run on.
        """
        lost = run.lost > 0 or (run.redelivered and not self._transport.broker.counts_only_losses)
        if lost:
            response = outcome_unknown(run.call, "it was cancelled after its worker was lost", published=True)
        else:
            response = cancelled(run.call, published=run.redelivered or run.call.generation > 1)
        self._told.ended(run, response)
        await self._only_reply(run, encode_reply(self._local.reply(run.call, response)))

    async def _serve(self, run: Run) -> None:
        try:
            if self._registry.find(run.call.provider_id, run.call.action_id) is None:
                await self._outbox.carry_out(run, await self._absent.decide(run.call))
            elif self._keeping is not None:
                await self._keeping.serve(run, self._begin)
            elif run.redelivered:
                await self._returned.serve(run, self._begin)
            else:
                await self._begin(run)
        except asyncio.CancelledError as error:
            if run.stopping:
                await self._stopped(run)
                raise
            # The action cancelled its own asyncio task. Given back, the call would do so again at once.
            this_task = run.serving
            while this_task.uncancel():
                pass
            await self._outbox.end(run, failures.internal(run.call, error, []))
        except TransportClosedError:
            run.nack()
        except Exception as error:
            # A defect of this package. Given back, the call would come again at once, and for ever.
            _LOGGER.exception("serving_failed", call_id=run.call.call_id, worker=self._name)
            told = "The worker could not serve the call: its log has why, under the call's id."
            failed = Failed("internal", told, {"type": type(error).__name__, "reference": run.call.call_id})
            self._told.ended(run, failed)
            with suppress(GrundlagError):
                await self._outbox.reply(run, encode_reply(Reply(run.call.call_id, failed, self._name)))
            run.reject()

    async def _begin(self, run: Run) -> None:
        run.begun = True
        run.since = asyncio.get_running_loop().time()
        if run.lost:
            _LOGGER.info("call_started_again", call_id=run.call.call_id, lost=run.lost, worker=self._name)
        self._told.started(run)
        disposition = await self._run(run)
        if run.lease is None or not run.lease.stopped:
            await self._outbox.carry_out(run, disposition)

    async def _stopped(self, run: Run) -> None:
        """Give back a call that the worker stopped, or end it where it may not be started again."""
        if run.begun and not self._returned.policy(run).rerun:
            await self._outbox.end_unsure(run)
        elif self._keeping is not None:
            await self._keeping.give_back(run)
        else:
            run.nack()

    async def _run(self, run: Run) -> Disposition:
        """Run the call to its outcome, and send what it told before."""
        reports = Reports(self._transport, run) if run.call.watched else None
        run.oversight.sink = None if reports is None else reports.add
        disposition = await self._local.run(run.call, run.oversight)
        if run.oversight.cancelled:
            await self._local.ended(run.call.call_id)
        run.over = True
        if reports is not None:
            await reports.flush()
        return disposition

    async def _refuse(self, run: Run) -> None:
        call_id = run.call.call_id
        response = Failed("call_id_reused", f"Another call with the id {call_id} is running: give each its own.")
        await self._only_reply(run, encode_reply(Reply(call_id, response, self._name)))

    async def _only_reply(self, run: Run, body: bytes) -> None:
        """Reply to a call that is not run, then settle."""
        try:
            await self._outbox.reply(run, body)
            run.ack()
        except asyncio.CancelledError:
            run.nack()
            raise
