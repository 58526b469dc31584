"""The mailbox of a store: every reply to a run is recorded by whichever host gets it, then settled.

A reply that comes again, or for a call that no run knows, is settled and dropped.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.durable.failpoints import reach
from grundlag_bus.errors import EnvelopeError, StoreAwayError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import Failed, Reply, decode_reply, encode_reply
from grundlag_bus.schema.progress import TYPE as PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.durable.call_records import CallRecords
    from grundlag_bus.durable.writes import Writes
    from grundlag_bus.transport.base import Delivery, Message, Subscription, Transport

PREFETCH = 200
_MOST_AT_ONCE = 100
_PAUSE = 1.0

_LOGGER = get_logger("grundlag_bus.durable")


class StoreMailbox:
    """Reads it while it is open. heard: called with each reply that was recorded; lost: the broker has lost some."""

    def __init__(  # noqa: PLR0913  what it works with
        self,
        transport: Transport,
        store_id: str,
        records: CallRecords,
        writes: Writes,
        *,
        heard: Callable[[Reply], None],
        lost: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._queue = transport.topology.store_mailbox(store_id)
        self._records = records
        self._writes = writes
        self._heard = heard
        self._lost = lost
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self._subscription: Subscription | None = None
        self._taking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to read. Raises as `Transport.subscribe` does."""
        self._subscription = await self._transport.subscribe(
            self._queue, self._receive, prefetch=PREFETCH, renewed=self._lost
        )
        self._taking = asyncio.get_running_loop().create_task(self._take_all(), name="replies of runs")

    async def close(self) -> None:
        """Read no more; what is not recorded goes back."""
        if self._subscription is not None:
            await self._subscription.stop()
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait({self._taking})
        await self._writes.settle()
        if self._subscription is not None:
            await self._subscription.close()

    def _receive(self, delivery: Delivery) -> None:
        if delivery.message.type == PROGRESS:
            delivery.ack()
        else:
            self._arrived.put_nowait(delivery)

    async def _take_all(self) -> None:
        while True:
            batch = [await self._arrived.get()]
            while not self._arrived.empty() and len(batch) < _MOST_AT_ONCE:
                batch.append(self._arrived.get_nowait())
            reach("reply.taken")
            replies = {reply.call_id: reply for each in batch if (reply := _read(each.message)) is not None}
            taken = await self._record(replies)
            reach("reply.recorded")
            for delivery in batch:
                delivery.ack()
            for call_id in taken:
                self._heard(replies[call_id])

    async def _record(self, replies: dict[str, Reply]) -> set[str]:
        encoded = {call_id: encode_reply(reply) for call_id, reply in replies.items()}
        while True:
            try:
                return await self._writes.do(self._records.take(encoded))
            except StoreAwayError as error:
                _LOGGER.warning("replies_wait_for_the_store", replies=len(replies), reason=str(error))
                await asyncio.sleep(_PAUSE)


def _read(message: Message) -> Reply | None:
    """Read a reply; of one that cannot be read, that nobody can tell how its call ended."""
    try:
        return decode_reply(message.body)
    except EnvelopeError as error:
        _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=message.correlation_id)
        if not message.correlation_id:
            return None
        told = f"The call may have run: its reply cannot be read ({error.reason})."
        return Reply(message.correlation_id, Failed("outcome_unknown", told, {"published": True}), "caller")
