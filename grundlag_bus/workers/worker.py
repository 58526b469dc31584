"""A worker: takes calls from the queues of its providers, runs them here, replies, and only then settles.

A delivery's way: decode, run in an asyncio task that the worker owns, publish the reply, wait for its confirm, ack.
Prefetch equals concurrency, so that whatever is delivered is started at once and nothing waits inside a worker.

Rules:
- A delivery is acked when its reply is confirmed, or when nobody can be replied to.
- A call that is delivered again while it runs here (its connection was lost, or its caller sent it again) is adopted:
  it runs once, and all its deliveries are settled together. One that has just finished here is replied to again.
- A call that was lost with its workers as often as it may be, but once, runs alone: see `_run_alone`.
- What is not finished when the worker stops is given back unsettled, without a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
from collections import deque
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError, EnvelopeError, GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers import failures
from grundlag_bus.providers.deadline import this_task
from grundlag_bus.providers.disposition import Again, Dead, Disposition, End
from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.schema.dead_letter import DeadLetter
from grundlag_bus.schema.envelope import (
    Call,
    Failed,
    Reply,
    Response,
    decode_call,
    encode_call,
    encode_reply,
    new_call_id,
)
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.announce import announce
from grundlag_bus.workers.confirmed import Fate, publish_confirmed
from grundlag_bus.workers.finished import Finished
from grundlag_bus.workers.intake import Intake
from grundlag_bus.workers.run import Run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Delivery, Transport

REPLY_WITHIN = 60.0
"""Seconds that a finished call's reply is tried for, at least."""
STOP_WITHIN = 5.0
"""Seconds that calls get to end once they are cancelled."""

_LOGGER = get_logger("grundlag_bus.workers")


class Worker:
    """Serves every action of a registry from one transport.

    concurrency: calls that run at once, for each provider and lane; grace: seconds that running calls get when the
    worker stops. Raises ConfigurationError when an action may interrupt and the registry has no keys to share with
    other workers, except on an embedded bus.
    """

    def __init__(
        self, transport: Transport, registry: ProviderRegistry, *, concurrency: int = 64, grace: float = 30.0
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency} runs nothing: give at least 1.")
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
        self._concurrency = concurrency
        self._grace = grace
        queues = sum(len(provider.lanes) for provider in registry.providers.values())
        self._local = LocalCaller(
            registry,
            namespace=transport.topology.namespace,
            name=self.name,
            threads=concurrency * max(queues, 1),
            clock=transport.now,
        )
        self._intake = Intake(
            transport,
            registry,
            prefetch=concurrency,
            receive=self._receive,
            renewed=lambda: self._do_beside(self._announce_again()),
        )
        self._runs: dict[str, Run] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._finished = Finished()
        self._last_starts: deque[Run] = deque()
        self._alone = False
        self._beside: set[asyncio.Task[None]] = set()
        self._aborted = asyncio.Event()
        self._context = contextvars.copy_context()

    @property
    def in_flight(self) -> int:
        """How many calls run here."""
        return len(self._runs)

    async def run(self) -> None:
        """Serve until cancelled, then drain: take nothing more, give running calls their grace time, flush.

        `started` is set while it serves. A second cancellation ends the grace time. Raises what the transport raises
        when it cannot serve. The transport is opened, and left open for its owner to close.
        """
        self._context = contextvars.copy_context()
        self._aborted.clear()
        self._local.drain.begun = False
        self._local.open()
        async with self._registry:
            try:
                await self._transport.open()
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
        for run in list(self._runs.values()):
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
        for beside in self._beside:
            beside.cancel()
        try:
            await self._intake.stop()
            if self._serving and not self._aborted.is_set():
                await asyncio.wait(self._serving, timeout=self._grace)
        finally:
            try:
                for run in list(self._runs.values()):
                    run.stop()
                if self._serving:
                    await asyncio.wait(self._serving, timeout=STOP_WITHIN)
            finally:
                while self._last_starts:
                    del self._runs[self._last_starts.popleft().call.call_id]
                await self._intake.close()

    def _do_beside(self, work: Coroutine[None, None, None]) -> None:
        beside = asyncio.get_running_loop().create_task(work)
        self._beside.add(beside)
        beside.add_done_callback(self._beside.discard)

    async def _run_alone(self) -> None:
        """Run, each alone, the calls whose last start this is.

        A call that kills its worker would otherwise take the starts of its neighbours with it, until they are dead
        letters as well.
        """
        try:
            await self._intake.stop()
            while self._last_starts or self._serving:
                if self._serving:
                    await asyncio.wait(self._serving)
                else:
                    run = self._last_starts.popleft()
                    self._start(run, self._serve(run))
            await self._intake.reopen()
        finally:
            self._alone = False

    # --- a delivery's way ---------------------------------------------------------------------------------------------

    def _receive(self, provider_id: str, lane: str, delivery: Delivery) -> None:
        try:
            call = _decoded(delivery.message.body, provider_id, lane)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, worker=self.name)
            delivery.reject()
            return
        running = self._runs.get(call.call_id)
        reply = self._finished.reply_to(call) if delivery.redelivered and running is None else None
        if reply is not None:
            run = Run(call, delivery)
            self._start(run, self._reply_again(run, reply))
        elif running is None:
            run = self._runs[call.call_id] = Run(call, delivery)
            if self._local.is_last_start(call, lost=self._lost(run)):
                self._last_starts.append(run)
                if not self._alone:
                    self._alone = True
                    self._do_beside(self._run_alone())
            else:
                self._start(run, self._serve(run))
        elif running.is_of(call):
            running.adopt(delivery)
        else:
            run = Run(call, delivery)
            self._start(run, self._refuse(run))

    def _start(self, run: Run, work: Coroutine[None, None, None]) -> None:
        # Under the worker's context variables: a transport in memory calls here under those of whoever published.
        run.serving = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._serving.add(run.serving)
        run.serving.add_done_callback(self._serving.discard)

    async def _serve(self, run: Run) -> None:
        try:
            match await self._disposition(run):
                case End(response):
                    await self._end(run, response)
                case Dead(response):
                    await self._bury(run, response)
                case Again(call, pause):
                    await self._send_on(run, call, pause)
        except asyncio.CancelledError:
            run.nack()
            raise
        except Exception:
            # A defect of this package. Given back, the call would come again at once, and for ever.
            _LOGGER.exception("serving_failed", call_id=run.call.call_id, worker=self.name)
            run.reject()
        finally:
            del self._runs[run.call.call_id]

    async def _disposition(self, run: Run) -> Disposition:
        try:
            return await self._local.run(run.call, lost=self._lost(run))
        except asyncio.CancelledError as error:
            if run.stopping:
                raise
            # The action cancelled its own asyncio task. Given back, the call would do so again at once.
            this_task().uncancel()
            return End(failures.internal(run.call, error, []))

    def _lost(self, run: Run) -> int:
        return run.lost if self._transport.counts_losses else 0

    async def _end(self, run: Run, response: Response) -> None:
        """Reply, then settle."""
        body = encode_reply(self._local.reply(run.call, response))
        await self._reply(run, body)
        await self._local.ended(run.call.call_id)
        await self._reply(run, body)  # to who asked meanwhile
        self._finished.add(run.call, body)
        run.ack()

    async def _bury(self, run: Run, response: Failed) -> None:
        """Dead-letter with the reason, reply, then settle."""
        letter = DeadLetter(response, self.name, self._transport.now(), run.call)
        message = Message(letter.encode(), "dead", correlation_id=run.call.call_id)
        until = self._transport.now() + REPLY_WITHIN
        fate = await publish_confirmed(self._transport, self._transport.topology.dead_route, message, until=until)
        if fate is Fate.CONFIRMED:
            await self._end(run, response)
        else:
            _LOGGER.error("dead_letter_not_taken", call_id=run.call.call_id, reason=fate.name.lower())
            run.nack()

    async def _send_on(self, run: Run, call: Call, pause: float) -> None:
        """Publish the next generation, then settle. Nothing is held meanwhile."""
        await self._local.ended(call.call_id)
        body = encode_call(call)
        route = self._transport.topology.delayed_call_route(call.provider_id, call.lane, pause)
        while True:
            mailbox = run.next_mailbox()
            message = Message(body, "call", correlation_id=call.call_id, reply_to=mailbox)
            fate = await publish_confirmed(self._transport, route, message, until=call.deadline)
            if fate is not Fate.CONFIRMED:
                _LOGGER.warning("generation_not_taken", call_id=call.call_id, reason=fate.name.lower())
                run.nack()
                return
            if not run.has_mailbox:
                run.ack()
                return

    async def _refuse(self, run: Run) -> None:
        call_id = run.call.call_id
        response = Failed("call_id_reused", f"Another call with the id {call_id} is running: give each its own.")
        await self._reply_again(run, encode_reply(Reply(call_id, response, self.name)))

    async def _reply_again(self, run: Run, body: bytes) -> None:
        """Reply to a call that is not run, then settle."""
        try:
            await self._reply(run, body)
            run.ack()
        except asyncio.CancelledError:
            run.nack()
            raise

    async def _reply(self, run: Run, body: bytes) -> None:
        """Publish the reply to all who wait for it.

        A mailbox that is gone or forbidden, and a caller that waits no longer, end it as well as a confirm.
        """
        call = run.call
        until = max(call.deadline, self._transport.now() + REPLY_WITHIN)
        message = Message(body, "reply", correlation_id=call.call_id)
        while mailbox := run.next_mailbox():
            route = self._transport.topology.reply_route(mailbox)
            fate = await publish_confirmed(self._transport, route, message, until=until)
            if fate is Fate.CLOSED:
                run.nack()
            elif fate is not Fate.CONFIRMED:
                _LOGGER.warning("reply_not_taken", call_id=call.call_id, mailbox=mailbox, reason=fate.name.lower())


def _decoded(body: bytes, provider_id: str, lane: str) -> Call:
    """Read a call that came through the queue of a provider's lane. Raises EnvelopeError.

    Who may publish to a queue is the broker's permission: an envelope must not lead past it.
    """
    call = decode_call(body)
    if (call.provider_id, call.lane) != (provider_id, lane):
        named = f"provider {call.provider_id!r}, lane {call.lane!r}"
        raise EnvelopeError(f"it names {named} and came through the queue of {provider_id!r}, {lane!r}")
    return call
