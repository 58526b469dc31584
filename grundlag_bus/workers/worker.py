"""A worker: takes calls from the queues of its providers, runs them here, replies, and only then settles.

A delivery's way: decode, run in an asyncio task that the worker owns, publish the reply, wait for its confirm, ack.
Prefetch equals concurrency, so that whatever is delivered is started at once and nothing waits inside a worker.

Rules:
- A delivery is acked when its reply is confirmed, or when nobody can be replied to.
- A call that is delivered again while it runs here (its connection was lost, or its caller sent it again) is adopted:
  it runs once, and all its deliveries are settled together. One that has just finished here is replied to again.
- A cancelled call is not started, and stopped where it runs; its reply tells when it has stopped, or that it does not.
- Only then its budget of crashes is looked at: see `disposition` for what is decided, `alone` for how the last start is
  made. An action with `rerun=False` that is stopped with the worker is settled, as one whose outcome is unknown.
- A call of an action that only other workers have is sent on to them, after a pause (`absent`).
- The next generation of a call that is still being settled here waits until that is done.
- What is not finished when the worker stops is given back unsettled, without a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError, EnvelopeError, GrundlagError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers import failures
from grundlag_bus.providers.local import CANCEL_GRACE, LocalCaller
from grundlag_bus.schema.envelope import Call, Failed, Reply, decode_call, encode_reply, new_call_id
from grundlag_bus.telemetry import Hook, Report, ignore
from grundlag_bus.telemetry.loop import LoopWatch
from grundlag_bus.tools.endings import cancelled, outcome_unknown
from grundlag_bus.workers.absent import Absent
from grundlag_bus.workers.alone import Alone
from grundlag_bus.workers.announce import announce
from grundlag_bus.workers.control import Control
from grundlag_bus.workers.event_sender import EventSender
from grundlag_bus.workers.intake import Intake
from grundlag_bus.workers.outbox import Outbox
from grundlag_bus.workers.reports import Reports
from grundlag_bus.workers.returned import Returned
from grundlag_bus.workers.run import Run
from grundlag_bus.workers.share import share_of
from grundlag_bus.workers.status import LIVE_WITHIN, WorkerStatus, live, ready
from grundlag_bus.workers.told import Told, served_by

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping

    from grundlag_bus.providers.disposition import Disposition
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Delivery, Transport

STOP_WITHIN = 5.0
"""Seconds that calls get to end once they are cancelled."""

_LOGGER = get_logger("grundlag_bus.workers")


class Worker:
    """Serves the actions of a registry from one transport.

    providers, lanes: serve these alone (None: all); the manifest is announced whole in any case. concurrency: calls
    that run at once for each provider and lane, as one number or by lane; a lane that is not named runs 64, and lane
    `long` 16. limits: seconds that an action may run, by lane, instead of what `lanes.py` says. grace: seconds that
    running calls get when the worker stops; cancel_grace: those that an action gets when its call is cancelled. hook:
    told what happens to calls.

    Raises ConfigurationError when that names what is not there or leaves nothing to serve; also when an action may
    interrupt and the registry has no keys to share with other workers, except on an embedded bus.
    """

    def __init__(  # noqa: PLR0913  what a worker can be told
        self,
        transport: Transport,
        registry: ProviderRegistry,
        *,
        providers: Collection[str] | None = None,
        lanes: Collection[str] | None = None,
        concurrency: int | Mapping[str, int] | None = None,
        limits: Mapping[str, float] | None = None,
        grace: float = 30.0,
        cancel_grace: float = CANCEL_GRACE,
        hook: Hook = ignore,
    ) -> None:
        self._share = share_of(registry, providers=providers, lanes=lanes, concurrency=concurrency, limits=limits)
        if registry.interrupting and not registry.shared_keys and not transport.embedded:
            raise ConfigurationError(
                f"{', '.join(registry.interrupting)} may interrupt, and workers must share the keys that seal what an "
                "interrupt keeps: make a file with `grundlag-bus keys new FILE` and give it to every worker "
                "(--keys FILE, or ProviderRegistry(keys=SealKeys.load(FILE)))."
            )
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_call_id()[:8]}"
        self.started = asyncio.Event()
        self._transport = transport
        self._registry = registry
        self._grace = grace
        self._cancel_grace = cancel_grace
        self._local = LocalCaller(
            registry,
            namespace=transport.topology.namespace,
            name=self.name,
            threads=max(self._share.concurrency, 1),
            clock=transport.now,
            limit_of=self._share.limit_of,
            events=EventSender(transport),
        )
        self._told = Told(hook, transport.now)
        self._watch = LoopWatch(self._told.hook, whose=lambda task: served_by(task, tuple(self._started)))
        self._outbox = Outbox(transport, self._local, self.name, self._told)
        self._intake = Intake(
            transport,
            self._share,
            receive=self._receive,
            renewed=self._queue_renewed,
        )
        self._control = Control(transport, self.name, cancel=self._cancel, status=self.status)
        self._runs: dict[str, Run] = {}
        self._started: set[Run] = set()
        self._alone = Alone(self._intake, self._started)
        self._returned = Returned(transport, registry, self._outbox, self._alone, worker=self.name)
        self._absent = Absent(transport)
        self._beside: set[asyncio.Task[None]] = set()
        self._aborted = asyncio.Event()
        self._context = contextvars.copy_context()

    @property
    def providers(self) -> tuple[str, ...]:
        """The ids of the providers that it serves, sorted."""
        return self._share.providers

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that it serves, sorted."""
        return self._share.lanes

    @property
    def in_flight(self) -> int:
        """How many calls run here."""
        return len(self._runs)

    def status(self) -> WorkerStatus:
        """Tell how it stands now. May be asked in any thread."""
        return WorkerStatus.of(self, self._transport.state, draining=self._local.drain.begun)

    def ready(self) -> Report:
        """Report whether it takes calls and can reply to them. May be asked in any thread."""
        return ready(self.status())

    def live(self, *, within: float = LIVE_WITHIN) -> Report:
        """Report whether its event loop turned in the last seconds. May be asked in any thread."""
        return live(self._watch, within=within)

    async def run(self) -> None:
        """Serve until cancelled, then drain: take nothing more, give running calls their grace time, flush.

        `started` is set while it serves. A second cancellation ends the grace time. Raises what the transport raises
        when it cannot serve. The transport is opened, and left open for its owner to close.
        """
        self._context = contextvars.copy_context()
        self._aborted.clear()
        self._local.drain.begun = False
        self._local.open()
        self._alone.open()
        async with self._registry, self._watch:
            try:
                await self._transport.open()
                self._share.check_broker(self._transport.broker)
                await self._control.open()
                await self._intake.open()
                await announce(self._transport, self._registry)
                self.started.set()
                await self._aborted.wait()
            finally:
                self.started.clear()
                try:
                    await self._drain()
                finally:
                    self._local.close()

    async def abort(self) -> None:
        """Stop as if the process were killed: running actions are cancelled, nothing is replied, all is given back."""
        for run in list(self._started):
            run.mute()
        self._aborted.set()
        await self._intake.close()

    async def _announce_again(self) -> None:
        """Announce what is offered: a broker that lost a queue may have lost the manifests too."""
        try:
            await announce(self._transport, self._registry)
        except GrundlagError as error:
            _LOGGER.warning("announcing_failed", reason=str(error), worker=self.name)

    async def _drain(self) -> None:
        self._local.drain.begun = True
        for work in self._beside:
            work.cancel()
        self._alone.close()
        try:
            await self._intake.stop()
            await self._all_ended(within=0 if self._aborted.is_set() else self._grace)
        finally:
            try:
                for run in list(self._started):
                    run.stop()
                await self._all_ended(within=STOP_WITHIN)
                await asyncio.gather(*(self._stopped(run) for run in self._started))
            finally:
                await self._intake.close()
                await self._control.close()

    async def _all_ended(self, *, within: float) -> None:
        serving = [run.serving for run in self._started]
        if serving:
            await asyncio.wait(serving, timeout=within)

    def _queue_renewed(self) -> None:
        self._do_beside(self._announce_again())

    def _do_beside(self, work: Coroutine[None, None, None]) -> None:
        """Do something that no run waits for."""
        doing = asyncio.get_running_loop().create_task(work)
        self._beside.add(doing)
        doing.add_done_callback(self._beside.discard)

    # --- a delivery's way ---------------------------------------------------------------------------------------------

    def _receive(self, provider_id: str, lane: str, delivery: Delivery) -> None:
        try:
            call = _decoded(delivery.message.body, provider_id, lane)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, worker=self.name)
            self._told.refused(error.reason)
            delivery.reject()
            return
        self._take(call, delivery)

    def _take(self, call: Call, delivery: Delivery) -> None:
        running = self._runs.get(call.call_id)
        if running is None:
            reply = self._outbox.finished.reply_to(call) if delivery.redelivered else None
            run = Run(call, delivery)
            if reply is not None:
                self._start(run, self._only_reply(run, reply))
            elif call.call_id in self._control.cancelled:
                self._start(run, self._end_cancelled(run, redelivered=delivery.redelivered))
            else:
                self._runs[call.call_id] = run
                self._start(run, self._serve(run))
        elif not running.call.asks_the_same_as(call):
            run = Run(call, delivery)
            self._start(run, self._refuse(run))
        elif call.generation > running.call.generation:
            running.later.append((call, delivery))  # it overtook the settling of the one before
        else:
            running.adopt(delivery)

    def _start(self, run: Run, work: Coroutine[None, None, None]) -> None:
        # Under the worker's context variables: a transport in memory calls here under those of whoever published.
        run.serving = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._started.add(run)
        run.serving.add_done_callback(lambda _: self._ended(run))

    def _ended(self, run: Run) -> None:
        """Forget a run, however it ended, and take what waited for that."""
        self._started.discard(run)
        if self._runs.get(run.call.call_id) is run:
            del self._runs[run.call.call_id]
        if not run.stopping:
            for call, delivery in run.later:
                self._take(call, delivery)

    def _cancel(self, call_id: str) -> None:
        """Stop a call that runs here, and say so when it does not stop."""
        run = self._runs.get(call_id)
        if run is not None and not run.over and not run.oversight.cancelled:
            run.oversight.cancel()
            self._do_beside(self._tell_overdue(run))

    async def _tell_overdue(self, run: Run) -> None:
        await asyncio.sleep(self._cancel_grace)
        if not run.over and not run.stopping:
            told = f"it was cancelled, and did not stop within {self._cancel_grace:g} s"
            response = outcome_unknown(run.call, told, published=True)
            await self._outbox.reply(run, encode_reply(self._local.reply(run.call, response)))

    async def _end_cancelled(self, run: Run, *, redelivered: bool) -> None:
        """Reply to a call that was cancelled before it came here."""
        response = cancelled(run.call, published=redelivered or run.call.generation > 1)
        self._told.ended(run, response)
        await self._only_reply(run, encode_reply(self._local.reply(run.call, response)))

    async def _serve(self, run: Run) -> None:
        try:
            if self._registry.find(run.call.provider_id, run.call.action_id) is None:
                await self._outbox.carry_out(run, await self._absent.decide(run.call))
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
            _LOGGER.exception("serving_failed", call_id=run.call.call_id, worker=self.name)
            told = "The worker could not serve the call: its log has why, under the call's id."
            failed = Failed("internal", told, {"type": type(error).__name__, "reference": run.call.call_id})
            self._told.ended(run, failed)
            with suppress(GrundlagError):
                await self._outbox.reply(run, encode_reply(Reply(run.call.call_id, failed, self.name)))
            run.reject()

    async def _begin(self, run: Run) -> None:
        run.begun = True
        self._told.started(run)
        await self._outbox.carry_out(run, await self._run(run))

    async def _stopped(self, run: Run) -> None:
        """Give back a call that the worker stopped, or end it where it may not be started again."""
        if run.begun and not self._returned.policy(run).rerun:
            await self._outbox.end_unsure(run)
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
        await self._only_reply(run, encode_reply(Reply(call_id, response, self.name)))

    async def _only_reply(self, run: Run, body: bytes) -> None:
        """Reply to a call that is not run, then settle."""
        try:
            await self._outbox.reply(run, body)
            run.ack()
        except asyncio.CancelledError:
            run.nack()
            raise


def _decoded(body: bytes, provider_id: str, lane: str) -> Call:
    """Read a call that came through the queue of a provider's lane. Raises EnvelopeError.

    Who may publish to a queue is the broker's permission: an envelope must not lead past it.
    """
    call = decode_call(body)
    if (call.provider_id, call.lane) != (provider_id, lane):
        named = f"provider {call.provider_id!r}, lane {call.lane!r}"
        raise EnvelopeError(f"it names {named} and came through the queue of {provider_id!r}, {lane!r}")
    return call
