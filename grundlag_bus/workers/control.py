"""What is said to every worker at once: cancellations, and the question who is there.

A worker first listens, then reads what was asked in the last day, and only then takes calls: nothing that was cancelled
before it came is started. Where its queue was lost with an outage, it reads again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from grundlag_bus.errors import BusUnreachableError, EnvelopeError, GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.control import decode_cancel
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.beside import Beside
from grundlag_bus.workers.status import encode_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Delivery, Subscription, Transport
    from grundlag_bus.workers.status import WorkerStatus
    from grundlag_bus.workers.tombstones import Tombstones

BETWEEN_READINGS = 1.0
"""Seconds until what could not be read is read again."""
TELL_WITHIN = 5.0
"""Seconds that an answer is tried for."""
_PREFETCH = 1000
_EMPTY = b"{}"
_LOGGER = get_logger("grundlag_bus.workers")


class Control:
    """Hears for one worker.

    cancelled: learns what is cancelled; cancel: called with the id of each such call, many times for some; status: what
    is told to who asks.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        *,
        cancelled: Tombstones,
        cancel: Callable[[str], None],
        status: Callable[[], WorkerStatus],
    ) -> None:
        self._cancelled = cancelled
        self._transport = transport
        self._name = name
        self._cancel = cancel
        self._status = status
        self._subscription: Subscription | None = None
        self._beside = Beside()

    async def open(self) -> None:
        """Listen, and learn what was cancelled before. Raises as `Transport.subscribe` and `Transport.read` do."""
        queue = self._transport.topology.control_queue(self._name)
        self._subscription = await self._transport.subscribe(
            queue, self._receive, prefetch=_PREFETCH, renewed=self._renewed
        )
        await self._read()

    async def close(self) -> None:
        """Listen no more. Idempotent."""
        self._beside.cancel()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    def _receive(self, delivery: Delivery) -> None:
        delivery.ack()
        message = delivery.message
        if message.type == "cancel":
            self._take_cancel(message.body)
        elif message.type == "ping" and message.reply_to is not None:
            self._beside.do(self._tell(message.reply_to))

    async def _read(self) -> None:
        for body in await self._transport.read(self._transport.topology.cancels):
            if body != _EMPTY:
                self._take_cancel(body)

    def _take_cancel(self, body: bytes) -> None:
        try:
            cancel = decode_cancel(body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, worker=self._name)
            return
        self._cancelled.add(cancel)
        if cancel.call_id in self._cancelled:
            self._cancel(cancel.call_id)

    def _renewed(self) -> None:
        self._beside.do(self._read_again())

    async def _tell(self, mailbox: str) -> None:
        route = self._transport.topology.reply_route(mailbox)
        message = Message(encode_status(self._status()), "pong")
        with suppress(GrundlagError):  # whoever asked has gone
            await self._transport.publish(route, message, deadline=self._transport.now() + TELL_WITHIN)

    async def _read_again(self) -> None:
        told = False
        while True:
            try:
                await self._read()
            except BusUnreachableError as error:  # it may be gone again, and come back before the queue is lost anew
                if not told:
                    _LOGGER.warning("cancels_not_read", reason=str(error), worker=self._name)
                told = True
                await asyncio.sleep(BETWEEN_READINGS)
            except GrundlagError as error:
                _LOGGER.warning("cancels_not_read", reason=str(error), worker=self._name)
                return
            else:
                return
