"""One live connection: aio-pika over a `Wire`, opened once, never repaired; and what its failures mean.

Exchanges, queues and bindings are declared on aio-pika's channels. What is hot uses the aiormq channels below them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import aio_pika
import aiormq
from aio_pika.abc import UnderlayConnection
from aio_pika.tools import OneShotCallback
from aiormq.exceptions import AMQPError, ChannelInvalidStateError, ProbableAuthenticationError
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_exponential, wait_random
from yarl import URL

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.base import Broker
from grundlag_bus.transport.rabbitmq.credentials import login
from grundlag_bus.transport.rabbitmq.wire import Taker, WireFactory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    from aiormq.abc import AbstractChannel

    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.rabbitmq.wire import Wire

T = TypeVar("T")
ANSWER_TIMEOUT = 20.0
"""Seconds within which the broker has to answer a request; after that its channel is given up, and that alone: a queue
without a leader answers nothing, while its neighbours on the connection are well. A dead connection falls silent."""
_CLOSE_TIMEOUT = 3.0
_NOT_ALLOWED = 530


class Connection:
    """One connection to the broker, until it is lost.

    Requests raise aiormq's channel errors for what the broker answers, and ConnectionError where it cannot.
    """

    def __init__(self, pika: _Pika, wire: Wire) -> None:
        self._pika = pika
        self.wire = wire
        self._asked: set[asyncio.Future[Any]] = set()

    @classmethod
    async def open(cls, address: Address, *, name: str, heartbeat: int, seconds: float) -> Connection:
        """Connect and log in. Raises BusUnreachableError, ConfigurationError (for files)."""
        _quieten_aiormq()
        context = await asyncio.to_thread(address.ssl_context) if address.tls else None
        user, password = await login(address, seconds)
        factory = WireFactory(address.host, address.port_number, context)
        # The URL carries what aiormq reads from one: credentials, heartbeat, name. The rest is given in parts.
        url = URL.build(
            scheme=address.scheme,
            host=address.host,
            port=address.port_number,
            user=user,
            password=password,
            query={"heartbeat": str(heartbeat), "name": name},
        )
        pika = _Pika(url, address.vhost, factory)
        try:
            async with asyncio.timeout(seconds):
                await pika.connect()
        except (OSError, AMQPError, EOFError) as error:
            factory.wire.abort("it could not be opened")
            raise _explained(error, address, factory.wire, seconds) from error
        except BaseException:
            factory.wire.abort("opening was cancelled")
            raise
        factory.wire.listen(heartbeat)
        return cls(pika, factory.wire)

    @property
    def broker(self) -> Broker:
        return broker_of(self._pika.amqp.server_properties)

    @property
    def heartbeat(self) -> int:
        """Seconds, as it was agreed with the broker."""
        return self._pika.amqp.connection_tune.heartbeat

    @property
    def frame_max(self) -> int:
        return self._pika.amqp.connection_tune.frame_max

    async def ask(self, request: Awaitable[T]) -> T:
        """Await an answer of the broker. Cancelling this leaves the request to end by itself.

        aiormq closes a channel whose request is cancelled, and raises CancelledError of its own when the connection
        ends: neither reaches the caller.
        """
        asked = asyncio.ensure_future(request)
        self._asked.add(asked)
        asked.add_done_callback(self._answered)
        await self._settled(asked, ANSWER_TIMEOUT)
        if not asked.done() and not self.wire.lost.done():
            asked.cancel()
            raise ConnectionAbortedError(f"the broker did not answer within {ANSWER_TIMEOUT:g} s")
        error = asked.exception() if asked.done() and not asked.cancelled() else None
        if isinstance(error, ChannelInvalidStateError):
            raise ConnectionResetError("the channel was closed") from error
        if error is not None and self.wire.lost.done():  # aiormq has many words for it, RuntimeError among them
            raise ConnectionResetError(self.wire.lost.result()) from error
        return self._result(asked)

    async def until_lost(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Await something that is not asked of the broker, while the connection lasts."""
        waiting = asyncio.ensure_future(awaited)
        try:
            await self._settled(waiting, None)
            return self._result(waiting)
        finally:
            waiting.cancel()

    async def _settled(self, future: asyncio.Future[T], seconds: float | None) -> None:
        both: set[asyncio.Future[Any]] = {future, self.wire.lost}
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _result(self, future: asyncio.Future[T]) -> T:
        if not future.done() or future.cancelled():
            future.cancel()
            lost = self.wire.lost
            raise ConnectionResetError(lost.result() if lost.done() else "the connection ended")
        return future.result()

    async def channel(self, taker: Taker | None = None, *, confirms: bool = False) -> AbstractChannel:
        """Open a channel; `taker` hears what is hot on it from the first frame on."""
        channel = await self.ask(self._pika.amqp.channel(publisher_confirms=confirms))
        if taker is not None:
            if self.wire.lost.done():
                raise ConnectionResetError(self.wire.lost.result())
            self.wire.takers[channel.number] = taker
        return channel

    @asynccontextmanager
    async def declaring(self) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
        """Give a channel of its own to declare on, since the broker closes the channel of what it refuses."""
        channel = await self.ask(self._pika.opened_channel())
        try:
            yield channel
        finally:
            with suppress(AMQPError, ConnectionError):
                await self.ask(channel.close())

    async def close_channel(self, channel: AbstractChannel, taker: Taker | None = None) -> None:
        """Close a channel, with the taker it was opened with, and do not mind if it is closed already."""
        self.wire.flush()
        try:
            await self.ask(channel.close())
        except (AMQPError, ConnectionError):
            return
        finally:
            # By now the number may be another channel's. If it is not, the broker did not answer: whatever still comes
            # is nobody's, and must not reach aiormq, whose reader would wait for ever for room in a closed channel.
            if taker is not None and self.wire.takers.get(channel.number) is taker:
                self.wire.takers[channel.number] = Taker()

    async def close(self) -> None:
        """Say goodbye, wait shortly for the answer, and leave nothing behind."""
        self.wire.flush()
        closing = asyncio.ensure_future(self._pika.close())
        try:
            await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT)
        finally:
            self.wire.abort("it was closed")
        await asyncio.wait({closing}, timeout=_CLOSE_TIMEOUT)
        closing.cancel()
        await asyncio.gather(asyncio.shield(self.wire.lost), closing, *self._asked, return_exceptions=True)

    def _answered(self, asked: asyncio.Future[Any]) -> None:
        self._asked.discard(asked)
        if not asked.cancelled():
            asked.exception()  # seen, also where nobody waits any more


class _Pika(aio_pika.Connection):
    """aio-pika's connection over our wire; the vhost is given apart, since a URL cannot carry every name."""

    def __init__(self, url: URL, vhost: str, factory: WireFactory) -> None:
        super().__init__(url)
        self.amqp = aiormq.Connection(url, transport_factory=factory)
        self.amqp.vhost = vhost

    def __del__(self) -> None:
        """Leave closing to whoever opened it: aio-pika's own would begin it whenever the garbage is collected."""

    async def opened_channel(self) -> aio_pika.abc.AbstractChannel:
        channel = self.channel(publisher_confirms=False)
        await channel.initialize()
        return channel

    async def connect(self, timeout: aio_pika.abc.TimeoutType = None) -> None:  # noqa: ARG002, ASYNC109  aio-pika's signature
        await self.amqp.connect()
        closed = OneShotCallback(self._on_connection_close)
        self.amqp.closing.add_done_callback(closed)
        self.transport = UnderlayConnection(connection=self.amqp, close_callback=closed)
        await self._on_connected()


def _quieten_aiormq() -> None:
    # aiormq logs each failure with its traceback, and this package says each outage once in its own words. Who set a
    # level of their own keeps it.
    logger = logging.getLogger("aiormq")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def broker_of(properties: Mapping[str, Any]) -> Broker:
    """Read what the broker says of itself.

    The consumer's time-out argument came with the quorum queues of 4.3, and with them the counts that leave nacks out;
    a queue argument or a policy sets the time-out since 3.12.
    """
    version = tuple(int(part) for part in re.findall(r"\d+", str(properties.get("version", "")))[:3])
    product = str(properties.get("product", "AMQP"))
    modern = product == "RabbitMQ" and version >= (4, 3)
    return Broker(product, version, honours_consumer_timeout=modern, counts_only_losses=modern)


def is_passing(error: BaseException) -> bool:
    """Whether waiting may help: nothing listens yet, or the broker was slow. Wrong names and credentials stay wrong."""
    cause = error.__cause__
    return (
        isinstance(error, BusUnreachableError)
        and isinstance(cause, OSError | EOFError)
        and not isinstance(cause, socket.gaierror | ssl.SSLError | ProbableAuthenticationError)
    )


async def patiently(attempt: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Try again for that long while waiting may help. Raises what the last attempt did."""
    retrying = AsyncRetrying(
        retry=retry_if_exception(is_passing),
        stop=stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.1, max=1) + wait_random(0, 0.1),
        reraise=True,
    )
    result: T = await retrying(attempt)
    return result


def _explained(  # noqa: PLR0911  one return per cause
    error: BaseException, address: Address, wire: Wire, seconds: float
) -> BusUnreachableError:
    if isinstance(error, socket.gaierror):
        return BusUnreachableError(f"The name {address.host!r} of {address} is not known: correct the host.")
    if isinstance(error, ssl.SSLCertVerificationError):
        return BusUnreachableError(
            f"The certificate of {address} is not trusted ({error.verify_message}): name its authority's file as "
            "ca_file (cacertfile in the URL), or correct the host."
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or error
        return BusUnreachableError(f"TLS with {address} failed ({reason}): is this the broker's TLS port?")
    if isinstance(error, ProbableAuthenticationError):
        return BusUnreachableError(f"The broker refuses the login at {address}: correct user and password.")
    if wire.close_reason is not None:
        code, text = wire.close_reason
        if code == _NOT_ALLOWED and "vhost" in text:
            return BusUnreachableError(
                f"The broker refuses the vhost of {address} ({text}): create it, or grant the user access to it."
            )
        return BusUnreachableError(f"The broker refuses the connection at {address} ({code} {text}).")
    if isinstance(error, TimeoutError):
        return BusUnreachableError(
            f"The broker at {address} did not answer within {seconds:g} s: check host, port and firewall."
        )
    if isinstance(error, AMQPError | EOFError):
        hint = "is this its port?" if address.tls else "is this its port, and does it want amqps?"
        return BusUnreachableError(f"What answers at {address} ended the connection or is no AMQP broker: {hint}")
    return BusUnreachableError(f"Nothing listens at {address} ({error}): start the broker, or correct host and port.")
