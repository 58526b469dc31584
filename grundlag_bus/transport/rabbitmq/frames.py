"""AMQP 0-9-1 frames of the hot path, written and read by hand: publish, settle, deliver, return, confirm.

A frame is: type (1 byte), channel (2), payload size (4), payload, 0xCE. Everything else goes through pamqp, which
makes an object per frame and walks its properties by name; here a message costs a few slices and one join.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.topology import Route

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
OVERHEAD = 8
"""Bytes of a frame besides its payload."""
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

# class id and method id, as one number
CONNECTION_CLOSE = 10 << 16 | 50
CONNECTION_BLOCKED = 10 << 16 | 60
CONNECTION_UNBLOCKED = 10 << 16 | 61
CHANNEL_CLOSE = 20 << 16 | 40
CHANNEL_CLOSE_OK = 20 << 16 | 41
BASIC_CANCEL = 60 << 16 | 30
BASIC_PUBLISH = 60 << 16 | 40
BASIC_RETURN = 60 << 16 | 50
BASIC_DELIVER = 60 << 16 | 60
BASIC_GET_OK = 60 << 16 | 71
BASIC_ACK = 60 << 16 | 80
BASIC_REJECT = 60 << 16 | 90
BASIC_NACK = 60 << 16 | 120

PREFIX = Struct(">BHI")
U16, U32 = Struct(">H"), Struct(">I")
_SETTLE = Struct(">BHIIQBB")
_CONTENT = Struct(">HHQH")
_TAG_AND_BITS = Struct(">QB")
_VALUES = {
    kind.encode(): Struct(f">{code}")
    for kind, code in zip("tbBsuIilLfdDTV", ("?", *"bBhHiIqQfd", "5s", "Q", ""), strict=True)
}
"""Values of a table that have a fixed size, by their type."""
_SIZED_VALUES = frozenset((b"S", b"x", b"A", b"F"))
"""Values of a table that begin with their size."""
_BASIC_CLASS = 60
_DURABLE = b"\x02"
_SHORT_LIMIT = 255

_CONTENT_TYPE, _ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY = 1 << 15, 1 << 14, 1 << 13, 1 << 12, 1 << 11
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID = 1 << 10, 1 << 9, 1 << 8, 1 << 7
_TIMESTAMP, _TYPE = 1 << 6, 1 << 5


class Properties(NamedTuple):
    """What a content header says, as far as anybody here asks."""

    body_size: int
    correlation_id: str | None
    reply_to: str | None
    message_id: str | None
    type: str


def short(text: str) -> bytes:
    """Write a short string. Raises ValueError over 255 bytes."""
    data = text.encode()
    if len(data) > _SHORT_LIMIT:
        raise ValueError(f"{text[:40]!r}... is longer than the {_SHORT_LIMIT} bytes that AMQP allows here")
    return bytes((len(data),)) + data


_remembered = lru_cache(1024)(short)
_JSON = short("application/json")


def publish_method(channel: int, route: Route) -> bytes:
    """Write the method frame of a mandatory publish: the same for every message of a route, so keep it."""
    payload = U32.pack(BASIC_PUBLISH) + b"\0\0" + short(route.exchange) + short(route.routing_key) + b"\x01"
    return PREFIX.pack(METHOD, channel, len(payload)) + payload + END


def publish_content(channel: int, message: Message, message_id: bytes, body_limit: int) -> bytes:
    """Write the header frame and the body frames of a durable JSON message.

    body_limit: what fits into one frame, that is the negotiated frame_max less OVERHEAD.
    """
    flags = _CONTENT_TYPE | _DELIVERY_MODE | _MESSAGE_ID | _TYPE
    correlation_id = reply_to = b""
    if message.correlation_id is not None:
        flags |= _CORRELATION_ID
        correlation_id = short(message.correlation_id)
    if message.reply_to is not None:
        flags |= _REPLY_TO
        reply_to = _remembered(message.reply_to)
    kind, body = _remembered(message.type), message.body
    size, length = len(body), len(message_id)
    header_size = _CONTENT.size + len(_JSON) + 2 + len(correlation_id) + len(reply_to) + length + len(kind)
    parts = [
        PREFIX.pack(HEADER, channel, header_size),
        _CONTENT.pack(_BASIC_CLASS, 0, size, flags),
        _JSON,
        _DURABLE,
        correlation_id,
        reply_to,
        bytes((length,)),
        message_id,
        kind,
        END,
    ]
    if 0 < size <= body_limit:
        parts += (PREFIX.pack(BODY, channel, size), body, END)
    else:
        for start in range(0, size, body_limit):
            piece = body[start : start + body_limit]
            parts += (PREFIX.pack(BODY, channel, len(piece)), piece, END)
    return b"".join(parts)


def ack(channel: int, tag: int) -> bytes:
    return _SETTLE.pack(METHOD, channel, 13, BASIC_ACK, tag, 0, 0xCE)


def nack(channel: int, tag: int, *, multiple: bool = False) -> bytes:
    """Give back to the queue. Tag 0 with `multiple` is everything outstanding on the channel."""
    return _SETTLE.pack(METHOD, channel, 13, BASIC_NACK, tag, 2 | multiple, 0xCE)


def reject(channel: int, tag: int) -> bytes:
    """Refuse without giving back, which dead-letters."""
    return _SETTLE.pack(METHOD, channel, 13, BASIC_REJECT, tag, 0, 0xCE)


def read_confirm(data: bytes, at: int) -> tuple[int, bool]:
    """Read the arguments of a confirm's ack or nack: tag and multiple."""
    tag, bits = _TAG_AND_BITS.unpack_from(data, at)
    return tag, bool(bits & 1)


def read_deliver(data: bytes, at: int) -> tuple[int, bool, str]:
    """Read the arguments of a deliver: tag, redelivered and routing key. Consumer tag and exchange are skipped."""
    at += 1 + data[at]
    tag, redelivered = _TAG_AND_BITS.unpack_from(data, at)
    at += _TAG_AND_BITS.size
    return tag, bool(redelivered), read_short(data, at + 1 + data[at])


def read_short(data: bytes, at: int) -> str:
    return str(data[at + 1 : at + 1 + data[at]], "utf-8", "replace")


def read_reason(data: bytes, at: int) -> tuple[int, str]:
    """Read a code and its text, with which a close and a return begin."""
    return U16.unpack_from(data, at)[0], read_short(data, at + 2)


def read_properties(data: bytes, at: int) -> Properties:  # noqa: C901  one branch per property of the protocol
    """Read a content header's payload. Strangers' properties are skipped."""
    _, _, body_size, flags = _CONTENT.unpack_from(data, at)
    at += _CONTENT.size
    correlation_id = reply_to = message_id = None
    kind = ""
    if flags & _CONTENT_TYPE:
        at += 1 + data[at]
    if flags & _ENCODING:
        at += 1 + data[at]
    if flags & _HEADERS:
        at += 4 + U32.unpack_from(data, at)[0]
    if flags & _DELIVERY_MODE:
        at += 1
    if flags & _PRIORITY:
        at += 1
    if flags & _CORRELATION_ID:
        correlation_id = read_short(data, at)
        at += 1 + data[at]
    if flags & _REPLY_TO:
        reply_to = read_short(data, at)
        at += 1 + data[at]
    if flags & _EXPIRATION:
        at += 1 + data[at]
    if flags & _MESSAGE_ID:
        message_id = read_short(data, at)
        at += 1 + data[at]
    if flags & _TIMESTAMP:
        at += 8
    if flags & _TYPE:
        kind = read_short(data, at)
    return Properties(body_size, correlation_id, reply_to, message_id, kind)


def read_delivery_count(data: bytes, at: int) -> int:
    """Read from a content header's payload how often the message was lost; 0 where no header of it says so."""
    return read_number(data, at, "x-delivery-count")


def read_number(data: bytes, at: int, name: str) -> int:
    """Read the header of this name, which is a number, from a content header's payload; 0 where there is none."""
    key = _remembered(name)
    flags = _CONTENT.unpack_from(data, at)[3]
    at += _CONTENT.size
    if not flags & _HEADERS:
        return 0
    if flags & _CONTENT_TYPE:
        at += 1 + data[at]
    if flags & _ENCODING:
        at += 1 + data[at]
    end = at + 4 + U32.unpack_from(data, at)[0]
    at += 4
    while at < end:
        wanted = data.startswith(key, at)
        at += 1 + data[at]
        kind = data[at : at + 1]
        at += 1
        if kind in _SIZED_VALUES:
            at += 4 + U32.unpack_from(data, at)[0]
        elif kind not in _VALUES:
            return 0  # of unknown size
        elif wanted:
            return int(_VALUES[kind].unpack_from(data, at)[0])
        else:
            at += _VALUES[kind].size
    return 0
