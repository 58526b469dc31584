"""Calls over a transport: request and reply, multiplexed over one mailbox.

Rules:
- Each call ends exactly once: by its reply, by a refused publish, by its deadline or with the bus. What ends it first
  takes it out of the waiting ones.
- Whether a call can have run is known by whether it was written: what was never written did not run.
- A reply that nothing waits for is counted and dropped.
- A cancellation is asked of the workers, and their reply still ends the call; it is waited for a while.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.adapters.cancels import Cancels
from grundlag_bus.errors import (
    EnvelopeError,
    PayloadTooLargeError,
    PublishExpiredError,
    PublishForbiddenError,
    PublishUnsureError,
    TransportClosedError,
    TransportError,
    UnroutableError,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.bounds import this_task
from grundlag_bus.schema.codec import MAX_BYTES, ensure_size
from grundlag_bus.schema.envelope import Call, Failed, Reply, decode_reply, encode_call, new_call_id
from grundlag_bus.schema.progress import TYPE as PROGRESS
from grundlag_bus.schema.progress import Progress, ProgressSink, decode_progress
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, ended_here, outcome_unknown
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Delivery, Subscription, Transport

REPLY_PREFETCH = 1000
CANCEL_WITHIN = 30.0
"""Seconds that a cancelled call's reply is waited for: longer than an action gets to stop."""

_LOGGER = get_logger("grundlag_bus.adapters")


class BusCaller:
    """Runs calls on whichever worker takes them.

    late_replies: how many replies came that nothing waited for.
    """

    def __init__(self, transport: Transport) -> None:
        self.late_replies = 0
        self._transport = transport
        self._mailbox = new_call_id()
        self._waiting: dict[str, list[_Waiting]] = {}
        self._repeats: set[asyncio.Task[None]] = set()
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
        if self._subscription is None:
            raise TransportClosedError("The bus is not open: call tools inside `async with connect(...) as bus`.")
        if cancel is not None and cancel.is_set():
            return ended_here(call, cancelled(call, published=False))
        if on_progress is not None:
            call = replace(call, watched=True)
        body = encode_call(call)
        if len(body) > MAX_BYTES:  # the limit is the request's, which is a little smaller than its envelope
            try:
                ensure_size(call.request.to_json())
            except PayloadTooLargeError as error:
                return ended_here(call, Failed(error.code, error.message, error.details))
        loop = asyncio.get_running_loop()
        waiting = _Waiting(call, body, loop.create_future(), on_progress)
        timer = loop.call_later(call.deadline - self._transport.now(), self._expire, waiting)
        self._waiting.setdefault(call.call_id, []).append(waiting)
        asking = None if cancel is None else loop.create_task(self._when_cancelled(waiting, cancel))
        try:
            await self._first_publish(waiting)
            return await waiting.reply
        except asyncio.CancelledError:
            if waiting.published is not False and not waiting.has_ended:
                self._cancels.send(call.call_id)
            raise
        finally:
            timer.cancel()
            if asking is not None:
                asking.cancel()
            self._forget(waiting)

    async def _when_cancelled(self, waiting: _Waiting, cancel: asyncio.Event) -> None:
        """Wait for the signal, ask the workers, and wait no longer for their word than they need."""
        await cancel.wait()
        call = waiting.call
        if waiting.published is False:
            self._end(waiting, cancelled(call, published=False))
            return
        self._cancels.send(call.call_id)
        await asyncio.sleep(CANCEL_WITHIN)
        told = f"it was cancelled, and no worker said within {CANCEL_WITHIN:g} s that it has stopped"
        self._end(waiting, outcome_unknown(call, told, published=waiting.published))

    async def _first_publish(self, waiting: _Waiting) -> None:
        """Publish in the caller's own task: another one for each call would cost more than the call's other parts."""
        waiting.publishing = task = this_task()
        before = task.cancelling()  # a call may be made while its task is being cancelled
        try:
            await self._publish(waiting)
        except asyncio.CancelledError:
            if not waiting.stopped or task.uncancel() > before:
                raise
        finally:
            waiting.publishing = None

    async def _publish(self, waiting: _Waiting) -> None:
        """Publish until the broker has the call, or end it."""
        call = waiting.call
        route = self._transport.topology.call_route(call.provider_id, call.lane)
        message = Message(waiting.body, "call", correlation_id=call.call_id, reply_to=self._mailbox)
        while not waiting.reply.done():
            try:
                await self._transport.publish(route, message, deadline=call.deadline, written=waiting.was_written)
            except TransportError as error:
                ending = self._ending(error, waiting)
                if ending is None:
                    continue
                self._end(waiting, ending)
            else:
                waiting.published = True
            return

    def _ending(self, error: TransportError, waiting: _Waiting) -> Failed | None:  # noqa: PLR0911  one for each error
        """Say how a call ends whose publish failed; None: it is to be published again."""
        call = waiting.call
        match error:
            case UnroutableError():
                return Failed(
                    "provider_unavailable",
                    f"No worker of provider {call.provider_id!r} (lane {call.lane!r}) has ever started in namespace "
                    f"{self._transport.topology.namespace!r}: start one with `grundlag-bus worker`.",
                    retryable=True,
                )
            case PublishForbiddenError():
                return Failed("forbidden", str(error))
            case PublishExpiredError():
                return deadline_exceeded(call, published=waiting.published)
            case PublishUnsureError() if call.idempotent and self._transport.now() < call.deadline:
                return None
            case PublishUnsureError():
                return outcome_unknown(call, str(error), published=None)
            case TransportClosedError() if waiting.published is not False:
                return outcome_unknown(call, str(error), published=waiting.published)
        return Failed("overloaded", str(error), retryable=True)

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
            for waiting in tuple(self._waiting.get(message.correlation_id or "", ())):
                told = f"its reply cannot be read ({error.reason})"
                self._end(waiting, outcome_unknown(waiting.call, told, published=True))
            return
        waiting_here = self._waiting.pop(reply.call_id, ())
        if not waiting_here:
            self.late_replies += 1
            _LOGGER.debug("late_reply", call_id=reply.call_id, worker=reply.worker)
        for waiting in waiting_here:
            waiting.end(reply)

    def _hear(self, message: Message) -> None:
        """Pass progress on to who asked for it."""
        try:
            call_id, progress = decode_progress(message.body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=message.correlation_id)
            return
        for waiting in tuple(self._waiting.get(call_id, ())):
            waiting.hear(progress)

    def _mailbox_renewed(self) -> None:
        """Send again, or give up, the calls whose replies may have been in the mailbox that is gone."""
        for waiting in self._all_waiting():
            if waiting.published is False:
                continue
            if waiting.call.idempotent:
                repeat = asyncio.get_running_loop().create_task(self._publish(waiting))
                self._repeats.add(repeat)
                repeat.add_done_callback(self._repeats.discard)
            else:
                told = "the mailbox for its reply was lost on the broker"
                self._end(waiting, outcome_unknown(waiting.call, told, published=waiting.published))

    def _expire(self, waiting: _Waiting) -> None:
        self._end(waiting, deadline_exceeded(waiting.call, published=waiting.published))

    def _all_waiting(self) -> list[_Waiting]:
        return [waiting for together in self._waiting.values() for waiting in together]

    def _end(self, waiting: _Waiting, response: Failed) -> None:
        self._forget(waiting)
        waiting.stop(ended_here(waiting.call, response))

    def _forget(self, waiting: _Waiting) -> None:
        together = self._waiting.get(waiting.call.call_id)
        if together is not None and waiting in together:
            together.remove(waiting)
            if not together:
                del self._waiting[waiting.call.call_id]


class _Waiting:
    """A call without an end yet.

    published: False before it is written, None while unsure, True when confirmed; publishing: the task that is at it.
    """

    __slots__ = ("_sink", "body", "call", "published", "publishing", "reply", "stopped")

    def __init__(self, call: Call, body: bytes, reply: asyncio.Future[Reply], sink: ProgressSink | None = None) -> None:
        self._sink = sink
        self.call = call
        self.body = body
        self.reply = reply
        self.published: bool | None = False
        self.publishing: asyncio.Task[object] | None = None
        self.stopped = False

    @property
    def has_ended(self) -> bool:
        """Whether the reply is here: that its future is cancelled means that nobody awaits it."""
        return self.reply.done() and not self.reply.cancelled()

    def was_written(self) -> None:
        if self.published is False:
            self.published = None

    def hear(self, progress: Progress) -> None:
        if self._sink is not None:
            self._sink(progress)

    def end(self, reply: Reply) -> None:
        """Take the reply; a publish that is not confirmed yet will be in a moment."""
        if not self.reply.done():
            self.reply.set_result(reply)

    def stop(self, reply: Reply) -> None:
        """Take the reply, and publish no longer: nobody knows when that would end."""
        self.end(reply)
        if self.publishing is not None and not self.stopped and self.publishing is not asyncio.current_task():
            self.stopped = True
            self.publishing.cancel()
