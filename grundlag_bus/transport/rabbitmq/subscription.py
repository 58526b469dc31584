"""A consumer of one queue that is kept alive: one keeper does everything that talks to the broker, in order.

    detached -> attach: (after a first time: is the queue still there?) channel, prefetch, declare, bind, consume
    attached -> connection lost, channel closed   -> detached, and every delivery in hand is void
             -> consumer cancelled by the broker  -> attach anew on another channel. The one before is retired: it
                                                     takes nothing and lives until all in hand there is settled
    pause    -> cancel the consumer; what the broker had sent before is given back. Attached again after resume, or
                not attached again before it, whatever becomes of the connection
    stop     -> as pause, for good
    close    -> stop, give back what is not settled, close the channel

What the broker does when a delivery is not settled within the consumer's time-out, as measured on 4.3.6:

- It notices at once, within some ten milliseconds. The message is available again, and comes with `redelivered` and
  uncounted (`x-delivery-count` stays). Acking the old delivery settles nothing any more.
- It cancels that consumer and nothing else: connection, channel and the other deliveries on it are well. It cancels the
  same tag once more for each other delivery that is too late.
- It keeps the tag, so that a second consumer with it costs the connection (530), and takes the consumer up again when
  all that it had timed out is settled, under the old tag: then there are two. Hence the other channel. From 4.3.7 on it
  forgets a consumer whose cancel was answered, which aiormq does.
- If this side cancels the tag as well, then the next delivery of it that is too late closes the channel (406). So that
  is done only to a consumer that was taken up again.

3.10 knows no such argument. At its own time-out (`consumer_timeout`, looked at once a minute) it closes the channel,
and all deliveries on it come again.

An attempt that fails halfway is made again as a whole, which does no harm.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiormq.exceptions import AMQPError

from grundlag_bus.errors import BusUnreachableError, GrundlagError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.transport.rabbitmq.consumer import Consumer
from grundlag_bus.transport.rabbitmq.kept_queue import KeptQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Delivery
    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.rabbitmq.link import Link
    from grundlag_bus.transport.topology import Queue

_log = get_logger(__name__)
_WATCH = 5.0
"""Seconds between two looks at whether the consumer is what it should be, besides what events tell."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class RabbitSubscription:
    """See `Subscription`."""

    def __init__(  # noqa: PLR0913  as `Transport.subscribe`, and the link
        self,
        link: Link,
        queue: Queue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        renewed: Callable[[], None] | None,
        consumer_timeout: float | None = None,
    ) -> None:
        self._link = link
        self._queue = KeptQueue(queue, renewed)
        self._receive = receive
        self._prefetch = prefetch
        milliseconds = None if consumer_timeout is None else round(consumer_timeout * 1000)
        self._arguments = None if milliseconds is None else {"x-consumer-timeout": milliseconds}
        self._consumer: Consumer | None = None
        self._retired: set[Consumer] = set()
        self._complaint = ""
        self._changed = asyncio.Event()
        self._paused = False
        self._stopping = False
        self._closing = False
        self._quiet = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = loop.create_future()
        self._stopped: asyncio.Future[None] = loop.create_future()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep the consumer of {queue.name}")

    async def start(self, seconds: float) -> None:
        """Wait for the first attachment. Raises BusUnreachableError, TopologyMismatchError, TransportClosedError."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._started)
        except TimeoutError as error:
            self._give_up()
            raise BusUnreachableError(
                f"The queue {self._queue.name} at {self._link.address} could not be consumed within {seconds:g} s: "
                "is the broker reachable, and has the queue a leader?"
            ) from error
        except BaseException:
            self._give_up()
            raise

    async def pause(self) -> None:
        """See `Subscription.pause`."""
        if self._stopping:
            await self.stop()
            return
        self._paused = True
        self._quiet.clear()
        self._want_otherwise()
        await self._quiet.wait()

    def resume(self) -> None:
        """See `Subscription.resume`."""
        self._paused = False
        self._quiet.set()
        self._want_otherwise()

    async def stop(self) -> None:
        """See `Subscription.stop`."""
        self._take_no_more()
        await asyncio.shield(self._stopped)

    async def close(self) -> None:
        """See `Subscription.close`."""
        self._give_up()
        await asyncio.shield(self._keeper)

    @property
    def wanted(self) -> bool:
        """Whether it is to have a consumer now."""
        return not (self._stopping or self._paused)

    @property
    def consuming(self) -> bool:
        """Whether it has one, by what is known here."""
        return self._consumer is not None and self._consumer.is_well()

    def _give_up(self) -> None:
        self._closing = True
        self._take_no_more()

    def _take_no_more(self) -> None:
        self._stopping = True
        self._want_otherwise()

    def _want_otherwise(self) -> None:
        if self._consumer is not None:
            self._consumer.gives_back = not self.wanted
        self._changed.set()

    def when_closed(self, then: Callable[[RabbitSubscription], None]) -> None:
        self._keeper.add_done_callback(lambda _: then(self))

    # --- the keeper ---------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while not self._closing:
                self._changed.clear()
                try:
                    await self._see_to_retired()
                    if not self.wanted:
                        await self._cancel()
                    elif not await self._attach():
                        continue
                    pause = _FIRST_PAUSE
                    wait = _WATCH
                except Exception as error:  # noqa: BLE001  a consumer is not given up for a defect
                    if not isinstance(error, AMQPError | ConnectionError):
                        if not self._started.done():
                            self._started.set_exception(error)
                            return
                        if pause > _FIRST_PAUSE:  # a queue that is being deleted is there and not there for a moment
                            self._complain(error)
                    wait, pause = pause, min(2 * pause, _LONGEST_PAUSE)
                await self._changed_within(wait)
        finally:
            await self._end()

    def _complain(self, error: Exception) -> None:
        """Log what an outage does not explain, once until it changes."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            known = isinstance(error, GrundlagError)
            _log.error(
                "bus.consuming_fails", queue=self._queue.name, reason=str(error), exc_info=None if known else error
            )

    async def _attach(self) -> bool:
        """Do what is missing. Returns False if something changed before anything could be done."""
        consumer = self._consumer
        if consumer is not None and consumer.is_well():
            if consumer.has_room:
                await self._consume(consumer)
            await self._bind_again(consumer.connection)
            return True
        connection = self._link.connection
        if connection is None:
            await self._up_or_changed()
            return False
        await self._queue.look(connection)
        if consumer is not None and consumer.live and consumer.has_lost_one:
            await self._retire(consumer)
            consumer = None
        if consumer is None or not consumer.live or consumer.connection is not connection:
            consumer = self._consumer = Consumer(
                connection, self._receive, self._changed, prefetch=self._prefetch, arguments=self._arguments
            )
            consumer.gives_back = not self.wanted
        await self._consume(consumer)
        self._complaint = ""
        if not self._started.done():
            self._started.set_result(None)
        self._queue.consumed()
        return True

    async def _bind_again(self, connection: Connection) -> None:
        try:
            await self._queue.bind_again(connection)
        except GrundlagError:
            self._link.renew()  # which declares the exchange that is gone
            raise

    async def _retire(self, consumer: Consumer) -> None:
        self._consumer = None
        try:
            await consumer.retire()
        except (AMQPError, ConnectionError):
            await consumer.close()
            raise
        self._retired.add(consumer)
        await self._see_to_retired()

    async def _see_to_retired(self) -> None:
        for consumer in tuple(self._retired):
            try:
                if consumer.live and consumer.revived:
                    await consumer.end_again()
            except (AMQPError, ConnectionError):
                consumer.live = False
            if not consumer.live or not consumer.in_hand:
                self._retired.discard(consumer)
                await consumer.close()

    async def _consume(self, consumer: Consumer) -> None:
        try:
            if consumer.channel is None:
                await consumer.open()
            if not consumer.is_well():
                await self._queue.have(consumer.connection)
            await consumer.consume(self._queue.name)
        except Exception:
            await consumer.close()
            raise

    async def _cancel(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            try:
                await consumer.cancel()
            except (AMQPError, ConnectionError):
                # The connection or the channel is gone, and with it the consumer, or else nothing is answered on it.
                await consumer.close()
        self._quiet.set()
        if self._stopping and not self._stopped.done():
            self._stopped.set_result(None)

    async def _end(self) -> None:
        await self._cancel()
        for consumer in (*self._retired, *([self._consumer] if self._consumer is not None else [])):
            await consumer.close()
        await self._queue.end(self._link.connection)
        if not self._started.done():
            self._started.set_exception(TransportClosedError(f"The subscription of {self._queue.name} was closed."))
        self._started.exception()  # seen, also where nobody waits any more

    async def _changed_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _up_or_changed(self) -> None:
        waits = [asyncio.ensure_future(self._link.up()), asyncio.ensure_future(self._changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
