"""Calls over a transport: request and reply, multiplexed over one mailbox.

Rules:
- Each call ends exactly once: by its reply, by a refused publish, by its deadline or with the bus. What ends it first
  takes it out of the waiting ones.
- Whether a call can have run is known by whether it was written: what was never written did not run.
- A reply that nothing waits for is counted and dropped; that of a submission which nobody keeps is dropped.
- A cancellation is asked of the workers, and their reply still ends the call; it is waited for a while.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from grundlag_bus.adapters.cancels import Cancels
from grundlag_bus.adapters.submission import Dropped, Submission, when_dropped
from grundlag_bus.adapters.unsent import expired, may_be_sent_again, unsent
from grundlag_bus.adapters.waiting import Waiting
from grundlag_bus.errors import (
    EnvelopeError,
    PayloadTooLargeError,
    TopologyMismatchError,
    TransportClosedError,
    TransportError,
    error_from_failure,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.bounds import this_task
from grundlag_bus.schema.codec import MAX_BYTES, ensure_size
from grundlag_bus.schema.envelope import Call, Failed, Reply, decode_reply, encode_call, new_call_id
from grundlag_bus.schema.progress import TYPE as PROGRESS
from grundlag_bus.schema.progress import decode_progress
from grundlag_bus.telemetry import EnvelopeRefused, Hook, ReplyLate, ignore
from grundlag_bus.telemetry.hook import guarded
from grundlag_bus.tools.endings import cancelled, ended_here, outcome_unknown
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.tools import ToolItems
    from grundlag_bus.transport.base import Delivery, Subscription, Transport
    from grundlag_bus.transport.topology import Route

REPLY_PREFETCH = 1000
CANCEL_WITHIN = 30.0
"""Seconds that a cancelled call's reply is waited for: longer than an action gets to stop."""

_LOGGER = get_logger("grundlag_bus.adapters")


class BusCaller:
    """Runs calls on whichever worker takes them.

    hook: told what comes and cannot be used; late_replies: how many replies came that nothing waited for.
    """

    def __init__(self, transport: Transport, *, hook: Hook = ignore) -> None:
        self.late_replies = 0
        self._hook = guarded(hook)
        self._transport = transport
        self._mailbox = new_call_id()
        self._waiting: dict[str, list[Waiting]] = {}
        self._repeats: set[asyncio.Task[None]] = set()
        self._dropped = Dropped()
        self._subscription: Subscription | None = None
        self._opening = asyncio.Lock()
        self._cancels = Cancels(transport)

    @property
    def in_flight(self) -> int:
        """How many calls wait for their end."""
        return sum(len(waiting) for waiting in self._waiting.values())

    async def open(self) -> None:
        """Open the transport and the mailbox. Idempotent. Raises as `Transport.open` does."""
        async with self._opening:
            if self._subscription is None:
                await self._transport.open()
                queue = self._transport.topology.mailbox(self._mailbox)
                self._subscription = await self._transport.subscribe(
                    queue, self._receive, prefetch=REPLY_PREFETCH, renewed=self._mailbox_renewed
                )

    async def close(self) -> None:
        """End what still waits, and close the mailbox last. Idempotent."""
        repeats = list(self._repeats)
        for repeat in repeats:
            repeat.cancel()
        await asyncio.gather(*repeats, return_exceptions=True)
        await self._cancels.close()
        for waiting in self._all_waiting():
            if waiting.published is False:
                self._end(waiting, Failed("cancelled", "The call was not sent: its caller closed the bus before."))
            else:
                told = "its caller closed the bus"
                self._end(waiting, outcome_unknown(waiting.call, told, published=waiting.published))
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            await subscription.close()

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        """See `Caller.call`. Raises TransportClosedError while the bus is not open."""
        waiting = self._wait_for(call, on_progress, cancel)
        try:
            await self._first_publish(waiting, until=call.deadline)
            return await waiting.reply
        except asyncio.CancelledError:
            if waiting.published is not False and not waiting.has_ended:
                self._cancels.send(call.call_id)
            raise
        finally:
            self._forget(waiting)

    async def submit(
        self,
        call: Call,
        *,
        delay: int = 0,
        items: ToolItems | None = None,
        on_progress: ProgressSink | None = None,
        cancel: asyncio.Event | None = None,
    ) -> Submission:
        """Publish the call, to be started after `delay` seconds, and return when the broker has it.

        The deadline of the call counts from the end of the delay. items: take over what the reply brings. Raises
        TransportClosedError while the bus is not open, ConfigurationError for a delay that is too long, and the
        CallError that the call ended with where it could not be published.
        """
        due = self._transport.now() + delay if delay else None
        waiting = self._wait_for(call, on_progress, cancel, due=due)
        try:
            await self._first_publish(waiting, until=call.deadline - delay)
        except BaseException:
            self._forget(waiting)
            raise
        if waiting.published is not True and isinstance(failed := waiting.reply.result().response, Failed):
            raise error_from_failure(
                failed.code, failed.message, failed.details, retryable=failed.retryable, action_id=call.action_id
            )
        submission = Submission(call.call_id, waiting.reply, partial(self._cancel, waiting), items)
        when_dropped(submission, partial(self._drop, waiting))
        return submission

    def _wait_for(
        self, call: Call, on_progress: ProgressSink | None, cancel: asyncio.Event | None, *, due: float | None = None
    ) -> Waiting:
        """Begin to wait for the call's end; one that is too large, or cancelled before, has ended."""
        if self._subscription is None:
            raise TransportClosedError("The bus is not open: call tools inside `async with connect(...) as bus`.")
        if on_progress is not None:
            call = replace(call, watched=True)
        loop = asyncio.get_running_loop()
        waiting = Waiting(call, encode_call(call), loop.create_future(), on_progress, due=due)
        if cancel is not None and cancel.is_set():
            waiting.end(ended_here(call, cancelled(call, published=False)))
            return waiting
        if len(waiting.body) > MAX_BYTES:  # the limit is the request's, which is a little smaller than its envelope
            try:
                ensure_size(call.request.to_json())
            except PayloadTooLargeError as error:
                waiting.end(ended_here(call, Failed(error.code, error.message, error.details)))
                return waiting
        self._waiting.setdefault(call.call_id, []).append(waiting)
        waiting.timer = loop.call_later(call.deadline - self._transport.now(), self._expire, waiting)
        if cancel is not None:
            waiting.asking = loop.create_task(self._when_cancelled(waiting, cancel))
        return waiting

    async def _when_cancelled(self, waiting: Waiting, cancel: asyncio.Event) -> None:
        await cancel.wait()
        self._cancel(waiting)

    def _cancel(self, waiting: Waiting) -> None:
        """Ask the workers, and wait no longer for their word than they need."""
        if waiting.reply.done() or waiting.asked:
            return
        waiting.asked = True
        if waiting.published is False:
            self._end(waiting, cancelled(waiting.call, published=False))
            return
        waiting.rest()
        self._cancels.send(waiting.call.call_id)
        left = min(CANCEL_WITHIN, waiting.call.deadline - self._transport.now())
        waiting.timer = asyncio.get_running_loop().call_later(left, self._give_up, waiting)

    def _give_up(self, waiting: Waiting) -> None:
        told = "it was cancelled, and no worker said in time that it has stopped"
        self._end(waiting, outcome_unknown(waiting.call, told, published=waiting.published))

    async def _first_publish(self, waiting: Waiting, *, until: float) -> None:
        """Publish in the caller's own task: another one for each call would cost more than the call's other parts."""
        waiting.publishing = task = this_task()
        before = task.cancelling()  # a call may be made while its task is being cancelled
        try:
            await self._publish(waiting, until=until)
        except asyncio.CancelledError:
            if not waiting.stopped or task.uncancel() > before:
                raise
        finally:
            waiting.publishing = None

    async def _publish(self, waiting: Waiting, *, until: float) -> None:
        """Publish until the broker has the call, or end it."""
        call = waiting.call
        message = Message(waiting.body, "call", correlation_id=call.call_id, reply_to=self._mailbox)
        while not waiting.reply.done():
            try:
                route = self._route(waiting)
                await self._transport.publish(route, message, deadline=until, written=waiting.was_written)
            except (TransportError, TopologyMismatchError) as error:
                if may_be_sent_again(error, call, now=self._transport.now()):
                    continue
                self._end(waiting, unsent(error, waiting, self._transport))
            else:
                waiting.published = True
            return

    def _route(self, waiting: Waiting) -> Route:
        """Lead to the call's queue, by way of the delay ladder while it is not due."""
        call, topology = waiting.call, self._transport.topology
        if waiting.due is None:
            return topology.call_route(call.provider_id, call.lane)
        return topology.delayed_call_route(call.provider_id, call.lane, waiting.due - self._transport.now())

    def _receive(self, delivery: Delivery) -> None:
        delivery.ack()
        message = delivery.message
        if message.type == PROGRESS:
            self._hear(message)
            return
        try:
            reply = decode_reply(message.body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=message.correlation_id)
            self._hook(EnvelopeRefused(error.reason))
            for waiting in tuple(self._waiting.get(message.correlation_id or "", ())):
                told = f"its reply cannot be read ({error.reason})"
                self._end(waiting, outcome_unknown(waiting.call, told, published=True))
            return
        waiting_here = self._waiting.pop(reply.call_id, ())
        if not waiting_here and not self._dropped.take(reply.call_id):
            self.late_replies += 1
            self._hook(ReplyLate(reply.call_id, reply.worker))
            _LOGGER.debug("late_reply", call_id=reply.call_id, worker=reply.worker)
        for waiting in waiting_here:
            waiting.end(reply)

    def _hear(self, message: Message) -> None:
        """Pass progress on to who asked for it."""
        try:
            call_id, progress = decode_progress(message.body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=message.correlation_id)
            self._hook(EnvelopeRefused(error.reason))
            return
        for waiting in tuple(self._waiting.get(call_id, ())):
            waiting.hear(progress)

    def _mailbox_renewed(self) -> None:
        """Send again, or give up, the calls whose replies may have been in the mailbox that is gone."""
        for waiting in self._all_waiting():
            if waiting.published is False:
                continue
            if waiting.call.idempotent:
                repeat = asyncio.get_running_loop().create_task(self._publish(waiting, until=waiting.call.deadline))
                self._repeats.add(repeat)
                repeat.add_done_callback(self._repeats.discard)
                waiting.reply.add_done_callback(repeat.cancel)
            else:
                told = "the mailbox for its reply was lost on the broker"
                self._end(waiting, outcome_unknown(waiting.call, told, published=waiting.published))

    def _expire(self, waiting: Waiting) -> None:
        self._end(waiting, expired(waiting, self._transport))

    def _all_waiting(self) -> list[Waiting]:
        return [waiting for together in self._waiting.values() for waiting in together]

    def _end(self, waiting: Waiting, response: Failed) -> None:
        self._forget(waiting)
        waiting.stop(ended_here(waiting.call, response))

    def _drop(self, waiting: Waiting) -> None:
        if not waiting.reply.done():
            self._dropped.add(waiting.call.call_id)
        self._forget(waiting)

    def _forget(self, waiting: Waiting) -> None:
        waiting.rest()
        together = self._waiting.get(waiting.call.call_id)
        if together is not None and waiting in together:
            together.remove(waiting)
            if not together:
                del self._waiting[waiting.call.call_id]
