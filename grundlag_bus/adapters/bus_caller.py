"""Calls over a transport: request and reply, multiplexed over one mailbox.

Rules:
- Each call ends exactly once: by its reply, by a refused publish, or by its deadline. What ends it first pops it.
- A reply that nothing waits for is counted and dropped.
- The same call id, called twice at once, is one call: both callers get its reply. A resumption's id is derived, so
  that this happens to it; it is sent for as long as one of its callers waits.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    EnvelopeError,
    PayloadTooLargeError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.sharing import Sharing
from grundlag_bus.schema.codec import MAX_BYTES, ensure_size
from grundlag_bus.schema.envelope import Call, Failed, Reply, decode_reply, encode_call, new_call_id
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Delivery, Subscription, Transport

REPLY_PREFETCH = 1000

_LOGGER = get_logger("grundlag_bus.adapters")


class BusCaller:
    """Runs calls on whichever worker takes them.

    late_replies: how many replies came that nothing waited for.
    """

    def __init__(self, transport: Transport, *, clock: Callable[[], float] = time.time) -> None:
        self.late_replies = 0
        self._transport = transport
        self._clock = clock
        self._mailbox = new_call_id()
        self._waiting: dict[str, _Waiting] = {}
        self._repeats: set[asyncio.Task[None]] = set()
        self._resumptions: Sharing[Reply] = Sharing()
        self._subscription: Subscription | None = None

    @property
    def in_flight(self) -> int:
        """How many calls wait for their end."""
        return len(self._waiting)

    async def open(self) -> None:
        """Open the transport and the mailbox. Idempotent. Raises as `Transport.open` does."""
        if self._subscription is None:
            await self._transport.open()
            queue = self._transport.topology.mailbox(self._mailbox)
            self._subscription = await self._transport.subscribe(
                queue, self._receive, prefetch=REPLY_PREFETCH, renewed=self._mailbox_renewed
            )

    async def close(self) -> None:
        """End what still waits as `outcome_unknown`, and close the mailbox last. Idempotent."""
        repeats = list(self._repeats)
        for repeat in repeats:
            repeat.cancel()
        await asyncio.gather(*repeats, return_exceptions=True)
        for call_id, waiting in list(self._waiting.items()):
            self._end(call_id, _unknown(waiting.call, "the bus was closed by its caller", published=waiting.published))
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            await subscription.close()

    async def call(self, call: Call) -> Reply:
        """Publish the call and return its reply. Raises nothing but CancelledError, which gives the call up here."""
        if self._subscription is None:
            raise TransportClosedError("The bus is not open: call tools inside `async with connect(...) as bus`.")
        if call.request.resumption is not None:
            return await self._resumptions.share(call.call_id, lambda: self._call(call))
        return await self._call(call)

    async def _call(self, call: Call) -> Reply:
        waiting = self._waiting.get(call.call_id)
        if waiting is not None:
            return await asyncio.shield(waiting.reply)
        body = encode_call(call)
        if len(body) > MAX_BYTES:  # the limit is the request's, which is a little smaller than its envelope
            try:
                ensure_size(call.request.to_json())
            except PayloadTooLargeError as error:
                return _by_caller(call, Failed(error.code, error.message, error.details))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(call.deadline - self._clock(), self._expire, call.call_id)
        waiting = _Waiting(call, body, loop.create_future())
        self._waiting[call.call_id] = waiting
        try:
            await self._publish(waiting)
            return await asyncio.shield(waiting.reply)
        finally:
            timer.cancel()
            if self._waiting.get(call.call_id) is waiting:  # it was given up
                self._end(call.call_id, _unknown(call, "its caller gave it up", published=waiting.published))

    async def _publish(self, waiting: _Waiting) -> None:
        """Publish until the broker has the call, or end it."""
        call = waiting.call
        topology = self._transport.topology
        route = topology.call_route(call.provider_id, call.lane)
        message = Message(waiting.body, "call", correlation_id=call.call_id, reply_to=self._mailbox)
        while not waiting.reply.done():
            try:
                waiting.published = waiting.published or None
                await self._transport.publish(route, message, deadline=call.deadline)
                waiting.published = True
            except UnroutableError:
                waiting.published = waiting.published or False
                self._end(
                    call.call_id,
                    Failed(
                        "provider_unavailable",
                        f"No worker of provider {call.provider_id!r} (lane {call.lane!r}) has ever started in "
                        f"namespace {topology.namespace!r}: start one with `grundlag-bus worker`.",
                        retryable=True,
                    ),
                )
            except PublishRefusedError as error:
                self._end(call.call_id, self._refused(call, error))
            except PublishUnsureError as error:
                if call.idempotent and self._clock() < call.deadline:
                    continue
                self._end(call.call_id, _unknown(call, str(error), published=None))
            except TransportClosedError as error:
                self._end(call.call_id, _unknown(call, str(error), published=waiting.published))
            return

    def _repeat(self, waiting: _Waiting) -> None:
        repeat = asyncio.get_running_loop().create_task(self._publish(waiting))
        self._repeats.add(repeat)
        repeat.add_done_callback(self._repeats.discard)

    def _refused(self, call: Call, error: PublishRefusedError) -> Failed:
        if self._clock() >= call.deadline:
            return _expired(call, published=False)
        return Failed("overloaded", str(error), retryable=True)

    def _receive(self, delivery: Delivery) -> None:
        delivery.ack()
        try:
            reply = decode_reply(delivery.message.body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=delivery.message.correlation_id)
            return
        waiting = self._waiting.pop(reply.call_id, None)
        if waiting is None or waiting.reply.done():
            self.late_replies += 1
            _LOGGER.debug("late_reply", call_id=reply.call_id, worker=reply.worker)
            return
        waiting.reply.set_result(reply)

    def _mailbox_renewed(self) -> None:
        """Send again, or give up, the calls whose replies may have been in the mailbox that is gone."""
        for call_id, waiting in list(self._waiting.items()):
            if waiting.published is False:
                continue
            if waiting.call.idempotent:
                self._repeat(waiting)
            else:
                told = "the mailbox for its reply was lost on the broker"
                self._end(call_id, _unknown(waiting.call, told, published=waiting.published))

    def _expire(self, call_id: str) -> None:
        waiting = self._waiting.get(call_id)
        if waiting is not None:
            self._end(call_id, _expired(waiting.call, published=waiting.published))

    def _end(self, call_id: str, response: Failed) -> None:
        waiting = self._waiting.pop(call_id, None)
        if waiting is not None and not waiting.reply.done():
            waiting.reply.set_result(_by_caller(waiting.call, response))


class _Waiting:
    """A call without an end yet. published: False before it is written, None while unsure, True when confirmed."""

    __slots__ = ("body", "call", "published", "reply")

    def __init__(self, call: Call, body: bytes, reply: asyncio.Future[Reply]) -> None:
        self.call = call
        self.body = body
        self.reply = reply
        self.published: bool | None = False


def _by_caller(call: Call, response: Failed) -> Reply:
    return Reply(call.call_id, response, "caller", call.generation, call.attempt)


def _expired(call: Call, *, published: bool | None) -> Failed:
    return Failed(
        "deadline_exceeded",
        f"The call of {call.provider_id}.{call.action_id} did not end before its deadline: give it a longer timeout, "
        "or see whether a worker of the provider runs.",
        {"published": published},
    )


def _unknown(call: Call, told: str, *, published: bool | None) -> Failed:
    return Failed(
        "outcome_unknown",
        f"The call of {call.provider_id}.{call.action_id} may have run: {told}.",
        {"published": published},
    )
