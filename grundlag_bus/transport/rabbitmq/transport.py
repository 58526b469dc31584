"""The transport over RabbitMQ: two supervised connections, one publisher, any number of subscriptions.

Two, since a broker that is short of memory or disk stops reading from connections that publish. On a connection of
their own, deliveries still arrive, settle, and are given back meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import TransportClosedError, UnroutableError
from grundlag_bus.transport.base import TransportState
from grundlag_bus.transport.rabbitmq.address import Address
from grundlag_bus.transport.rabbitmq.condition import Condition
from grundlag_bus.transport.rabbitmq.connection import Connection, patiently
from grundlag_bus.transport.rabbitmq.declare import declare_topology
from grundlag_bus.transport.rabbitmq.first_use import FirstUse
from grundlag_bus.transport.rabbitmq.link import Link
from grundlag_bus.transport.rabbitmq.publisher import Publisher
from grundlag_bus.transport.rabbitmq.stream import read_stream
from grundlag_bus.transport.rabbitmq.subscription import RabbitSubscription
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Broker, Delivery, Message, Subscription
    from grundlag_bus.transport.rabbitmq.address import Credentials
    from grundlag_bus.transport.rabbitmq.wire import Taker
    from grundlag_bus.transport.topology import Queue, Route, Stream

HEARTBEAT = 4
"""Seconds. The broker sends one every half of it and drops us after two without any: so long may a loop be blocked."""
BYTE_BUDGET = 16 * 1024 * 1024
_CLOSE_TIMEOUT = 5.0
"""Seconds for a goodbye to the broker, before the connections are dropped."""


class RabbitTransport:
    """See `Transport`. `address` is a URL or its parts.

    heartbeat: whole seconds; a connection that is silent for nearly two of them counts as lost.
    byte_budget: bytes that may be published and not yet confirmed.
    connect_timeout: seconds for connecting, at first and for each try afterwards.
    name: what the broker's lists call this program's connections.
    credentials: gives user and password for each attempt to connect, in place of those of the address.
    """

    embedded = False

    def __init__(  # noqa: PLR0913  settings, all but one keyword-only
        self,
        address: Address | str,
        *,
        namespace: str = "grundlag",
        heartbeat: int = HEARTBEAT,
        byte_budget: int = BYTE_BUDGET,
        connect_timeout: float = 10.0,
        name: str = "grundlag-bus",
        credentials: Credentials | None = None,
    ) -> None:
        parsed = Address.parse(address) if isinstance(address, str) else address
        self.address = parsed if credentials is None else replace(parsed, credentials=credentials)
        self.topology = Topology(namespace)
        self._heartbeat = heartbeat
        self._byte_budget = byte_budget
        self._connect_timeout = connect_timeout
        self._name = name
        self._opening: asyncio.Task[None] | None = None
        self._waiters = 0
        self._wanted = False
        self._closing: asyncio.Task[None] | None = None
        self._links: tuple[Link, ...] = ()
        self._publisher: Publisher | None = None
        self._first_use: FirstUse | None = None
        self._subscriptions: set[RabbitSubscription] = set()
        self._reads: set[asyncio.Task[list[bytes]]] = set()
        self._condition = Condition(self.address)
        self._broker: Broker | None = None

    def __repr__(self) -> str:
        return f"RabbitTransport({str(self.address)!r}, namespace={self.topology.namespace!r})"

    @property
    def broker(self) -> Broker:
        """See `Transport.broker`."""
        if self._broker is None:
            raise TransportClosedError(f"The transport to {self.address} is not open: its broker is not known.")
        return self._broker

    @property
    def state(self) -> TransportState:
        """See `Transport.state`."""
        wanted = [subscription for subscription in tuple(self._subscriptions) if subscription.wanted]
        links = tuple(self._links)
        return TransportState(
            connected=bool(links) and all(link.connection is not None for link in links),
            blocked=self._condition.blocked,
            consumers_wanted=len(wanted),
            consumers_actual=sum(subscription.consuming for subscription in wanted),
        )

    def now(self) -> float:
        """See `Transport.now`."""
        return time.time()

    # --- opening and closing ------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """See `Transport.open`."""
        while (opening := self._opening) is not None and opening.cancelling():
            await asyncio.wait({opening})  # it tidies up
            if self._opening is opening:
                self._opening = None
        if self._closing is not None:
            raise TransportClosedError(f"The transport to {self.address} was closed: make another one.")
        if opening is None:
            opening = self._opening = asyncio.create_task(self._open(), name="open the transport")
        self._waiters += 1
        try:
            await asyncio.shield(opening)
            self._wanted = True
        except asyncio.CancelledError:
            if self._closing is not None and opening.cancelled():
                raise TransportClosedError(f"The transport to {self.address} was closed while it opened.") from None
            raise
        finally:
            self._waiters -= 1
            if not self._waiters and not self._wanted:
                self._undo()

    def _undo(self) -> None:
        """Leave nothing open where nobody waits for it."""
        if self._opening is None:
            return
        if not self._opening.done():
            self._opening.cancel()
            return
        for link in self._links:
            link.abort()
        self._forget()

    async def _open(self) -> None:
        publishing = self._condition.publishing = self._link("publish", self._set_up_publishing)
        consuming = self._link("consume", self._set_up_consuming)
        first_use = FirstUse(consuming)

        def lost_channel() -> None:
            first_use.forget()  # the broker closes the channel of who publishes to an exchange that is gone
            publishing.renew()

        told = self._condition.blocked_changed
        publisher = Publisher(self.address, byte_budget=self._byte_budget, lost_channel=lost_channel, told=told)
        self._publisher, self._links, self._first_use = publisher, (publishing, consuming), first_use
        try:
            await publishing.open()
            await consuming.open()
        except BaseException:
            try:
                await self._close_links()
            finally:
                self._forget()
            raise

    def _forget(self) -> None:
        """Go back to where another try to open begins."""
        if self._publisher is not None:
            self._publisher.close()
        self._publisher, self._links, self._opening = None, (), None

    async def close(self) -> None:
        """See `Transport.close`."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close the transport")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})
        closing = [asyncio.ensure_future(subscription.close()) for subscription in self._subscriptions]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_TIMEOUT)
        if self._publisher is not None:
            self._publisher.close()
        if self._first_use is not None:
            await self._first_use.close()
        for reading in self._reads:
            reading.cancel()
        await asyncio.gather(*self._reads, return_exceptions=True)
        await self._close_links()
        self._condition.close()
        await asyncio.gather(*closing, return_exceptions=True)

    async def _close_links(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))

    def _link(self, use: str, set_up: Callable[[Connection], Any]) -> Link:
        return Link(
            self.address,
            name=f"{self._name} ({use})",
            heartbeat=self._heartbeat,
            connect_timeout=self._connect_timeout,
            set_up=set_up,
            condition=self._condition,
        )

    async def _set_up_publishing(self, connection: Connection) -> None:
        publisher = self._publisher
        assert publisher is not None  # noqa: S101  made before the links
        await declare_topology(connection, self.topology)
        channel = await connection.channel(publisher, confirms=True)

        async def open_channel(taker: Taker) -> int:
            return (await connection.channel(taker, confirms=True)).number

        publisher.attach(connection.wire, channel.number, connection.frame_max, open_channel)

    async def _set_up_consuming(self, connection: Connection) -> None:
        self._broker = connection.broker
        await declare_topology(connection, self.topology)

    # --- moving bytes -------------------------------------------------------------------------------------------------

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        """See `Transport.publish`."""
        publisher = self._open_publisher()
        if route.needs is None:
            await publisher.publish(route, message, deadline=deadline, written=written)
            return
        assert self._first_use is not None  # noqa: S101  made with the publisher
        await self._first_use.ensure(route.needs, deadline=deadline)
        try:
            await publisher.publish(route, message, deadline=deadline, written=written)
        except UnroutableError:
            self._first_use.forget()  # somebody deleted it
            raise

    async def subscribe(
        self,
        queue: Queue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        renewed: Callable[[], None] | None = None,
        consumer_timeout: float | None = None,
    ) -> Subscription:
        """See `Transport.subscribe`."""
        self._open_publisher()
        subscription = RabbitSubscription(
            self._links[1], queue, receive, prefetch=prefetch, renewed=renewed, consumer_timeout=consumer_timeout
        )
        self._subscriptions.add(subscription)
        subscription.when_closed(self._subscriptions.discard)
        await subscription.start(self._connect_timeout)
        return subscription

    async def read(self, stream: Stream) -> list[bytes]:
        """See `Transport.read`."""
        self._open_publisher()
        reading = asyncio.create_task(self._read(stream), name=f"read {stream.name}")
        self._reads.add(reading)
        reading.add_done_callback(self._reads.discard)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            if reading.cancelled():
                raise TransportClosedError(f"The transport was closed while {stream.name} was read.") from None
            raise

    async def _read(self, stream: Stream) -> list[bytes]:
        async def attempt() -> list[bytes]:
            connection = await Connection.open(
                self.address, name=f"{self._name} (read)", heartbeat=self._heartbeat, seconds=self._connect_timeout
            )
            try:
                return await read_stream(connection, stream)
            finally:
                await connection.close()

        return await patiently(attempt, self._connect_timeout)

    def _open_publisher(self) -> Publisher:
        if self._closing is not None or self._publisher is None:
            raise TransportClosedError(f"The transport to {self.address} is not open: nothing was done.")
        return self._publisher
