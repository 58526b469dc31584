"""Run calls in this process: what a worker does with a call, and all that an in-process tool needs.

A call's way: find the action, check the input, open the sealed state, check the answer, run, check the output. Whatever
happens becomes a response; only the cancellation of whoever awaits the call is raised.

Errors leave the call's scope of services before they become a response, so that what a service does at its end (a
session that commits, a lock that is released) knows how the call went.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    ActionInputValidationError,
    ForbiddenError,
    NotJsonError,
    PayloadTooLargeError,
    TransportClosedError,
)
from grundlag_bus.providers import failures, verdicts
from grundlag_bus.providers.bounds import Bounds, Stop
from grundlag_bus.providers.checkpoints import Checkpoints
from grundlag_bus.providers.context import ActionContext, Drain
from grundlag_bus.providers.disposition import (
    Again,
    Dead,
    Disposition,
    End,
    Ended,
    Outcome,
    after_run,
)
from grundlag_bus.providers.emitting import Emitting, EventSink, drop
from grundlag_bus.providers.interrupts import Interrupts
from grundlag_bus.providers.oversight import Oversight
from grundlag_bus.providers.started import Stage, Started
from grundlag_bus.providers.threads import Threads
from grundlag_bus.schema.codec import ensure_size, plain
from grundlag_bus.schema.envelope import Call, Completed, Reply, Response
from grundlag_bus.schema.progress import Progress
from grundlag_bus.schema.trace import CURRENT
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.providers.services import Services
    from grundlag_bus.schema.progress import ProgressSink

CANCEL_GRACE = 10.0
"""Seconds that an action gets to stop when its call is cancelled."""


class LocalCaller:
    """Runs the calls of a registry's actions in this process.

    namespace: sealed state is bound to it; name: who replies; threads: how many actions that are no coroutine functions
    run at once; cancel_grace: seconds that an action gets to stop when its call is cancelled; limit_of: the seconds
    that an action of a lane may run; events: where go the events that actions emit; checkpoints: whether those are kept
    here for further starts, where no ledger keeps them.
    """

    def __init__(  # noqa: PLR0913  settings, all but one keyword-only
        self,
        registry: ProviderRegistry,
        *,
        namespace: str = "grundlag",
        name: str = "local",
        threads: int = 64,
        clock: Callable[[], float] = time.time,
        cancel_grace: float = CANCEL_GRACE,
        limit_of: Callable[[str], float] = lambda _: math.inf,
        events: EventSink = drop,
        checkpoints: bool = True,
    ) -> None:
        self.registry = registry
        self.drain = Drain()
        self._name = name
        self._clock = clock
        self._interrupts = Interrupts(registry, namespace, clock)
        self._threads = Threads(threads)
        self._closed = False
        self._cancel_grace = cancel_grace
        self._limit_of = limit_of
        self._events = events
        self._checkpoints = checkpoints
        self._overdue: set[asyncio.Task[Reply]] = set()

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        """See `Caller.call`. Runs the call as often as its action allows. Raises TransportClosedError after `close`."""
        oversight = Oversight(on_progress)
        if cancel is not None and cancel.is_set():
            oversight.cancel()
        if cancel is None or cancel.is_set():
            return await self._to_its_end(call, oversight)
        running = asyncio.get_running_loop().create_task(self._to_its_end(call, oversight))
        asked = asyncio.get_running_loop().create_task(cancel.wait())
        try:
            await asyncio.wait((running, asked), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            oversight.cancel()
            await asyncio.wait((running,), timeout=self._cancel_grace)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait((running,), timeout=self._cancel_grace)
            raise
        finally:
            asked.cancel()
            if not running.done():
                self._overdue.add(running)
                running.add_done_callback(self._overdue.discard)
        if running.done():
            return running.result()
        told = f"it was cancelled, and did not stop within {self._cancel_grace:g} s"
        return self.reply(call, outcome_unknown(call, told, published=True))

    async def _to_its_end(self, call: Call, oversight: Oversight) -> Reply:
        while True:
            match await self.run(call, oversight):
                case Again(call, pause):
                    await oversight.pause(pause)
                case End(response) | Dead(response):
                    if oversight.cancelled:
                        await self.ended(call.call_id)
                    return self.reply(call, response)

    async def ended(self, call_id: str) -> None:
        """Wait until nothing works on the call any more: a thread may outlive its call's deadline."""
        await self._threads.ended(call_id)

    def close(self) -> None:
        """Let the threads go, and run no more calls. A running thread is not waited for."""
        self._closed = True
        self._threads.close()

    def open(self) -> None:
        """Run calls again after `close`."""
        self._closed = False

    async def run(self, call: Call, oversight: Oversight) -> Disposition:
        """Start a call once, and say what is to become of it.

        Raises nothing but CancelledError, and TransportClosedError after `close`.
        """
        if self._closed:
            raise TransportClosedError("The bus is closed: call tools inside `async with connect(...) as bus`.")
        action = self.registry.find(call.provider_id, call.action_id)
        if action is None:
            return End(failures.action_unknown(call))
        disposition = after_run(await self._outcome(action, call, oversight), call, action.policy, now=self._clock())
        if isinstance(disposition, Again):
            if oversight.cancelled:
                return End(cancelled(call, published=True))
            oversight.report(Progress(deferred_until=self._clock() + disposition.pause))
        return disposition

    def reply(self, call: Call, response: Response) -> Reply:
        """Make the reply of a call that ended here."""
        try:
            ensure_size(response.to_json())
        except PayloadTooLargeError as error:
            response = failures.refused(error)
        except TypeError as error:  # a text that is no Unicode, in the message of a model's own validator
            response = failures.internal(call, error, [])
        return Reply(call.call_id, response, self._name, call.generation, call.attempt)

    async def _outcome(self, action: Action, call: Call, oversight: Oversight) -> Outcome:
        now = self._clock()
        left, limit = call.deadline - now, self._limit_of(call.lane)
        may_have_run = oversight.may_have_run or call.generation > 1
        if left <= 0:
            return Ended(deadline_exceeded(call, published=may_have_run))
        if oversight.cancelled:
            return Ended(cancelled(call, published=may_have_run))
        why = Stop.DEADLINE if left <= limit else Stop.LIMIT
        bounds = Bounds(min(left, limit), why, idle=action.idle_timeout)
        run = Started(action, call, bounds, oversight)
        oversight.began(bounds)
        if oversight.sink is not None:
            oversight.report(Progress(started=now))
        try:
            async with self.registry.opened().call_scope() as services:
                outcome: Outcome = Ended(await self._run(run, services, oversight))
        except KeyboardInterrupt:
            bounds.end()
            raise
        except BaseException as error:
            given_up = isinstance(error, asyncio.CancelledError) and bounds.given_up
            stop = bounds.end()
            if stop is not None:
                return verdicts.stopped(stop, run, limit=limit)
            if given_up:
                raise
            return verdicts.of_error(error, run, self._interrupts)
        finally:
            run.over = True
            oversight.ended()
        # An action that swallowed the cancellation and ended all the same has ended too late.
        stop = bounds.end()
        return outcome if stop is None else verdicts.stopped(stop, run, limit=limit)

    async def _run(self, run: Started, services: Services, oversight: Oversight) -> Completed:
        action, call = run.action, run.call
        try:
            # Depth first: what is too deep cannot be measured. The copies keep an action's hands off its caller's data.
            data = plain(call.request.input)
            items = plain(call.request.items, at=("items",))
        except NotJsonError as error:
            raise ActionInputValidationError(action.id, [error.issue]) from error
        ensure_size(call.request.to_json())
        value = action.parse(data)
        if not await self.registry.authorized(call.user_id, call.provider_id, action.id, data):
            raise ForbiddenError(f"User {call.user_id!r} may not call {call.provider_id}.{action.id} with this input.")
        resumption = self._interrupts.resumption(action, call)
        if resumption is not None and run.lease is not None:
            await run.lease.consume(resumption.interrupt_id)
        checkpoints = Checkpoints(run, oversight, kept_here=self._checkpoints)
        run.context = context = ActionContext(
            services=services,
            call_id=call.call_id,
            provider_id=call.provider_id,
            action_id=call.action_id,
            deadline=call.deadline,
            user_id=call.user_id,
            resumption=resumption,
            attempt=call.attempt,
            deferred=call.deferred,
            checkpointed=checkpoints.last,
            trace=call.trace,
            items=items,
            drain=self.drain,
            report=run.report,
            lease=run.lease,
            checkpoint=checkpoints,
            emit=Emitting(self.registry.providers[call.provider_id], call, self._events, self._clock),
        )
        run.stage = Stage.RUNNING
        if call.trace is None:
            result = await action.run(value, context, threads=self._threads)
        else:
            token = CURRENT.set(call.trace)
            try:
                result = await action.run(value, context, threads=self._threads)
            finally:
                CURRENT.reset(token)
        run.stage = Stage.FINISHING
        completed = Completed(action.dump(result), context.emitted)
        run.stage = Stage.CLOSING
        return completed
