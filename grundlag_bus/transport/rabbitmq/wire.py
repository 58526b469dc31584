"""The bytes of one connection: what is hot is handled here, everything else is aiormq's.

aiormq lets its user make the stream it talks over (`TransportFactory`). `Wire` is such a stream. It cuts what arrives
into frames and takes those out that are hot on a channel with a `Taker`: deliveries, returns and confirms. The rest
goes on to aiormq in order, so that handshake, declarations, heartbeats and closing stay its business. A few frames
are overheard on their way, because waiting for aiormq to tell would be later or never.

What is sent is collected and written once per turn of the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from aiormq.connection import TransportFactory

from grundlag_bus.transport.base import Message
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.foreign import readable

if TYPE_CHECKING:
    import ssl

    from yarl import URL

_FRAME_TYPES = frozenset((frames.METHOD, frames.HEADER, frames.BODY, frames.HEARTBEAT))
_CONTENT_METHODS = frozenset((frames.BASIC_DELIVER, frames.BASIC_RETURN))
_CONFIRMS = frozenset((frames.BASIC_ACK, frames.BASIC_NACK))
_FLUSH_AT = 64 * 1024
"""Bytes collected within one turn at which they are written at once, so that a full socket is noticed."""
_HIGH_WATER = 256 * 1024
_TICKS_PER_HEARTBEAT = 4
_SILENT_TICKS = 7
"""After so many ticks in which nothing was heard, three of the broker's heartbeats are missing."""
_NOTHING_YET = frames.Properties(0, None, None, None, "")


class Taker:
    """What one channel wants to hear. Called in the loop, must not raise."""

    def delivered(self, tag: int, message: Message, *, redelivered: bool, lost: int) -> None:
        """Take a message for a consumer of the channel. lost: how often consumers lost it, by the broker's count."""

    def returned(self, message_id: str | None, reason: str) -> None:
        """Hear that no queue takes a mandatory message; its confirm follows."""

    def confirmed(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        """Hear that the broker took over, or refused, the publish with this number (and all before)."""

    def cancelled(self, tag: str) -> None:
        """Hear that the broker cancelled the consumer with this tag; it may say so several times."""

    def closed(self, reason: str) -> None:
        """Hear that the broker closed the channel, or that the connection ended. Nothing follows."""

    def blocked(self, reason: str | None) -> None:
        """Hear that the broker takes no publishes on this connection for `reason`, or takes them again (None)."""

    def writable(self) -> None:
        """Hear that the socket takes bytes again after `Wire.full` was set."""


class _Content:
    """A deliver or return whose content is still arriving."""

    __slots__ = ("delivered", "lost", "parts", "properties", "reason", "redelivered", "remaining", "routing_key", "tag")

    def __init__(self, method: int, data: bytes, at: int) -> None:
        self.delivered = method == frames.BASIC_DELIVER
        self.parts: list[bytes] = []
        self.properties = _NOTHING_YET
        self.remaining = self.lost = 0
        self.redelivered = False
        if self.delivered:
            self.tag, self.redelivered, self.routing_key = frames.read_deliver(data, at)
        else:
            self.reason = frames.read_reason(data, at)[1]

    def begin(self, data: bytes, at: int) -> None:
        """Take the content's header."""
        self.properties = frames.read_properties(data, at)
        self.remaining = self.properties.body_size
        if self.redelivered:  # on a first delivery it is 0, whatever a stranger's header says
            self.lost = frames.read_delivery_count(data, at)


class Wire(asyncio.StreamReaderProtocol):
    """One socket to the broker.

    full: the socket's buffer is over its limit: publishes should wait for `Taker.writable`.
    close_reason: the code and text with which the broker closed the connection, where it said so.
    lost: done, with the reason, when the connection has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(loop=loop)
        super().__init__(self.reader, loop=loop)
        self.loop = loop
        self.takers: dict[int, Taker] = {}
        self.full = False
        self.blocked: str | None = None
        self.close_reason: tuple[int, str] | None = None
        self.lost: asyncio.Future[str] = loop.create_future()
        self._socket: asyncio.Transport | None = None
        self._rest = b""
        self._foreign = False
        self._contents: dict[int, _Content] = {}
        self._out: list[bytes] = []
        self._out_size = 0
        self._silent = 0
        self._tick: asyncio.TimerHandle | None = None
        self._aborted: str | None = None

    # --- out ----------------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Write whole frames, together with what else is sent in this turn of the loop."""
        out = self._out
        if not out:
            self.loop.call_soon(self.flush)
        out.append(data)
        self._out_size += len(data)
        if self._out_size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write what was collected now."""
        out, transport = self._out, self._socket
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        self._out, self._out_size = [], 0
        if transport is not None and not transport.is_closing():
            transport.write(data)

    def abort(self, reason: str) -> None:
        """Drop the connection now; `reason` becomes that of `lost`."""
        self._aborted = self._aborted or reason
        if self._socket is not None:
            self._socket.abort()

    def listen(self, heartbeat: float) -> None:
        """Begin to count silence, and drop the connection before two heartbeats (seconds) of it have passed.

        Silence is counted in ticks and not in seconds, so that a loop that was blocked does not take its own sleep
        for the broker's. A tick also hands aiormq a heartbeat where only hot frames came, which it does not see.
        """
        pause = heartbeat / _TICKS_PER_HEARTBEAT

        def tick() -> None:
            self._silent += 1
            if self._silent > _SILENT_TICKS:
                self.abort(f"nothing was heard for {_SILENT_TICKS * pause:g} s")
                return
            if self._silent == 1 and self._socket is not None and not self._socket.is_closing():
                self._pass_on(frames.HEARTBEAT_FRAME)
            self._tick = self.loop.call_later(pause, tick)

        self._tick = self.loop.call_later(pause, tick)

    # --- in -----------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        if self._foreign:
            self._pass_on(data)
            return
        if self._rest:
            data = self._rest + data
        at, size, takers = 0, len(data), self.takers
        unpack = frames.PREFIX.unpack_from
        while size - at >= frames.OVERHEAD:
            kind, channel, length = unpack(data, at)
            end = at + length + frames.OVERHEAD
            if kind not in _FRAME_TYPES:  # no AMQP 0-9-1: aiormq says so better
                self._foreign = True
                self._pass_on(data[at:])
                return
            if end > size:
                break
            if channel in takers:
                self._take(takers[channel], kind, channel, data, at + 7, end)
            else:
                if kind == frames.METHOD and not channel:
                    self._overhear(data, at + 7)
                self._pass_on(readable(data[at:end]))
            at = end
        self._rest = data[at:] if at < size else b""

    def _take(self, taker: Taker, kind: int, channel: int, data: bytes, at: int, end: int) -> None:  # noqa: PLR0913, PLR0917  a frame
        if kind == frames.BODY:
            content = self._contents[channel]
            content.parts.append(data[at : end - 1])
            content.remaining -= end - 1 - at
            if content.remaining <= 0:
                self._complete(taker, channel, content)
        elif kind == frames.HEADER:
            content = self._contents[channel]
            content.begin(data, at)
            if not content.remaining:
                self._complete(taker, channel, content)
        else:
            method = frames.U32.unpack_from(data, at)[0]
            if method in _CONTENT_METHODS:
                self._contents[channel] = _Content(method, data, at + 4)
            elif method in _CONFIRMS:
                tag, multiple = frames.read_confirm(data, at + 4)
                taker.confirmed(tag, multiple=multiple, accepted=method == frames.BASIC_ACK)
            else:
                self._pass_on(data[at - 7 : end])
                if method == frames.BASIC_CANCEL:
                    taker.cancelled(frames.read_short(data, at + 4))
                elif method == frames.CHANNEL_CLOSE_OK:
                    self._forget(channel)
                elif method == frames.CHANNEL_CLOSE:
                    self._forget(channel)
                    taker.closed(frames.read_reason(data, at + 4)[1])

    def _forget(self, channel: int) -> None:
        # Now, and not when whoever closed the channel gets to it: aiormq may give the number to the next one before.
        del self.takers[channel]
        self._contents.pop(channel, None)

    def _complete(self, taker: Taker, channel: int, content: _Content) -> None:
        del self._contents[channel]
        properties, parts = content.properties, content.parts
        if not content.delivered:
            taker.returned(properties.message_id, content.reason)
            return
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        message = Message(body, properties.type, properties.correlation_id, properties.reply_to, content.routing_key)
        taker.delivered(content.tag, message, redelivered=content.redelivered, lost=content.lost)

    def _overhear(self, data: bytes, at: int) -> None:
        method = frames.U32.unpack_from(data, at)[0]
        if method == frames.CONNECTION_CLOSE:
            self.close_reason = frames.read_reason(data, at + 4)
        elif method == frames.CONNECTION_BLOCKED:
            self._tell_blocked(frames.read_short(data, at + 4))
        elif method == frames.CONNECTION_UNBLOCKED:
            self._tell_blocked(None)

    def _tell_blocked(self, reason: str | None) -> None:
        self.blocked = reason
        for taker in tuple(self.takers.values()):
            taker.blocked(reason)

    def _pass_on(self, data: bytes) -> None:
        super().data_received(data)

    # --- the socket ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast and no check: uvloop's transport derives from nothing of asyncio's.
        self._socket = socket = cast("asyncio.Transport", transport)
        socket.set_write_buffer_limits(high=_HIGH_WATER)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        self.full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self.full = False
        super().resume_writing()
        for taker in tuple(self.takers.values()):
            taker.writable()

    def eof_received(self) -> bool:
        super().eof_received()
        if self._socket is not None:
            # End now: what is still to be written nobody may read, and only when it was would the socket close itself.
            self._socket.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket = None
        if self._tick is not None:
            self._tick.cancel()
        self._out, self._contents = [], {}
        super().connection_lost(exc)
        if self._aborted is not None:
            reason = self._aborted
        elif self.close_reason is not None:
            reason = "{} {}".format(*self.close_reason)
        else:
            reason = str(exc) if exc is not None else "the broker hung up"
        takers, self.takers = self.takers, {}
        for taker in takers.values():
            taker.closed(reason)
        if not self.lost.done():
            self.lost.set_result(reason)


class WireFactory(TransportFactory):
    """Makes the one `Wire` of one aiormq connection."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self.host, self.port, self.context = host, port, context
        self.wire = Wire(asyncio.get_running_loop())

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:  # noqa: ARG002  aiormq's signature
        wire = self.wire
        transport, _protocol = await wire.loop.create_connection(
            lambda: wire, self.host, self.port, ssl=self.context, server_hostname=self.host if self.context else None
        )
        return wire.reader, asyncio.StreamWriter(transport, wire, wire.reader, wire.loop)
