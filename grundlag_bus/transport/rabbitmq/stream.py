"""Reads a stream to its end. A broker tells neither how long a stream is nor that it has come to the end of one.

- `message_count` lags, and an empty stream delivers nothing: whether there is anything is asked by a consumer at the
  last chunk, and if that stays silent an entry is written. Whoever finds a stream new writes one too: twice is
  harmless.
- A chunk holds the entries that were written together, so the first entry of the last chunk need not be the last entry.
  A channel answers in order: after everything received was acknowledged (which gives credit for more), a question whose
  answer comes without another entry before it means that there is none.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiormq.exceptions import AMQPError
from pamqp.commands import Basic

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.rabbitmq.declare import bind_stream, declare_stream, exists
from grundlag_bus.transport.rabbitmq.foreign import STREAM_OFFSET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiormq.abc import AbstractChannel, DeliveredMessage

    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.topology import Stream

EMPTY_ENTRY = b"{}"
_PREFETCH = 256
_ACKED_TOGETHER = 64
_PATIENCE = (0.5, 1.0, 2.0, 4.0)
"""Seconds to wait for the last chunk, one try after the other."""
_READ_TIMEOUT = 30.0
"""Seconds in which a stream is to be read, or so many more entries of it as are asked for below."""
_ENTRIES_IN_TIME = 1000


async def read_stream(connection: Connection, stream: Stream) -> list[bytes]:
    """See `Transport.read`. Give it a connection of its own.

    Brokers before 4.0 close the whole connection of who consumes or publishes to a stream that is just being declared.
    """
    try:
        async with asyncio.timeout(_READ_TIMEOUT) as bound:
            wrote = await _ensure(connection, stream)
            await bind_stream(connection, stream)  # whoever declared it may not have come to that
            last = await _last_chunk(connection, stream, wrote=wrote)
            return await _read_to(connection, stream, last, bound)
    except TimeoutError as error:
        raise BusUnreachableError(f"The stream {stream.name} was not read to its end in time.") from error
    except (AMQPError, ConnectionError) as error:
        raise BusUnreachableError(f"The stream {stream.name} could not be read: {error}") from error


async def _ensure(connection: Connection, stream: Stream) -> bool:
    """Declare the stream where it is missing. Returns whether that was so, and then it has an entry."""
    if await exists(connection, stream.name):
        return False
    await declare_stream(connection, stream)
    await _write(connection, stream)
    return True


async def _write(connection: Connection, stream: Stream) -> None:
    channel = await connection.channel(confirms=True)
    properties = Basic.Properties(content_type="application/json", delivery_mode=2, message_type="empty")
    try:
        await connection.ask(
            channel.basic_publish(EMPTY_ENTRY, routing_key=stream.name, properties=properties, mandatory=True)
        )
    finally:
        await connection.close_channel(channel)


async def _last_chunk(connection: Connection, stream: Stream, *, wrote: bool) -> int:
    """Find the offset of the first entry in the last chunk."""
    for patience in _PATIENCE:
        async with _consumer(connection, stream, "last") as entries:
            try:
                async with asyncio.timeout(patience):
                    return _offset(await entries.next())
            except TimeoutError:
                pass
        if not wrote:
            await _write(connection, stream)
            wrote = True
    raise TimeoutError


async def _read_to(connection: Connection, stream: Stream, last: int, bound: asyncio.Timeout) -> list[bytes]:
    """Read what there is. A long stream gets more time, as long as it is the one that there was at the beginning."""
    clock = asyncio.get_running_loop().time
    bodies: list[bytes] = []
    async with _consumer(connection, stream, "first") as entries:
        offset = -1
        while offset < last or await entries.more():
            entry = await entries.next()
            bodies.append(entry.body)
            offset = _offset(entry)
            if offset < last and len(bodies) % _ENTRIES_IN_TIME == 0:
                bound.reschedule(clock() + _READ_TIMEOUT)
    return bodies


class _Entries:
    """What a consumer of a stream receives, in order. What is taken is acknowledged: in groups, where more is here."""

    def __init__(self, connection: Connection, channel: AbstractChannel, name: str) -> None:
        self._connection = connection
        self._channel = channel
        self._name = name
        self._received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()

    async def receive(self, message: DeliveredMessage) -> None:
        self._received.put_nowait(message)

    async def next(self) -> DeliveredMessage:
        if self._received.empty():
            message = await self._connection.until_lost(self._received.get())
        else:
            message = self._received.get_nowait()
        tag = message.delivery_tag or 0
        if self._received.empty() or tag % _ACKED_TOGETHER == 0:
            await self._channel.basic_ack(tag, multiple=True, wait=False)
        return message

    async def more(self) -> bool:
        """Whether there is another entry, now that all before are acknowledged."""
        if self._received.empty():
            await self._connection.ask(self._channel.basic_qos(prefetch_count=_PREFETCH))
        return not self._received.empty()


@asynccontextmanager
async def _consumer(connection: Connection, stream: Stream, offset: str) -> AsyncIterator[_Entries]:
    channel = await connection.channel()
    try:
        entries = _Entries(connection, channel, stream.name)
        await connection.ask(channel.basic_qos(prefetch_count=_PREFETCH))
        arguments: dict[str, Any] = {STREAM_OFFSET: offset}
        await connection.ask(channel.basic_consume(stream.name, entries.receive, arguments=arguments))
        yield entries
    finally:
        await connection.close_channel(channel)


def _offset(entry: DeliveredMessage) -> int:
    headers: dict[str, Any] = entry.header.properties.headers or {}
    return int(headers[STREAM_OFFSET])
