"""What strangers wrote into a message, made readable for aiormq, which ends a connection whose frame it cannot read.

A broker hands out texts that are no UTF-8 and times of no calendar as they came. One such message would keep whoever
takes messages out of its queue, or reads its stream, from all others. So where a frame of a message cannot be read,
what its publisher said in it is left out, and a header tells that something was.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import pamqp.frame
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from grundlag_bus.transport.rabbitmq import frames

UNREADABLE = "x-grundlag-unreadable"
"""The header of a message whose own cannot be read."""
STREAM_OFFSET = "x-stream-offset"
_TAG = Struct(">QB")


def readable(frame: bytes) -> bytes:
    """Return a frame as aiormq can read it, of a channel that has no `Taker`."""
    kind, channel, _ = frames.PREFIX.unpack_from(frame)
    if kind != frames.HEADER and (kind != frames.METHOD or frames.U32.unpack_from(frame, 7)[0] not in _WITHOUT_ROUTE):
        return frame
    try:
        pamqp.frame.unmarshal(frame)
    except Exception:  # noqa: BLE001  pamqp has no bound to what it raises
        return _header(channel, frame) if kind == frames.HEADER else _method(channel, frame)
    return frame


def _header(channel: int, frame: bytes) -> bytes:
    headers: dict[str, Any] = {UNREADABLE: True, STREAM_OFFSET: frames.read_number(frame, 7, STREAM_OFFSET)}
    size = frames.read_properties(frame, 7).body_size
    return pamqp.frame.marshal(ContentHeader(body_size=size, properties=Basic.Properties(headers=headers)), channel)


def _method(channel: int, frame: bytes) -> bytes:
    return pamqp.frame.marshal(_WITHOUT_ROUTE[frames.U32.unpack_from(frame, 7)[0]](frame, 11), channel)


def _got(frame: bytes, at: int) -> Basic.GetOk:
    tag, redelivered = _TAG.unpack_from(frame, at)
    return Basic.GetOk(tag, bool(redelivered), "", "", 0)


def _delivered(frame: bytes, at: int) -> Basic.Deliver:
    tag, redelivered, _ = frames.read_deliver(frame, at)
    return Basic.Deliver(frames.read_short(frame, at), tag, redelivered, "", "")


_WITHOUT_ROUTE = {frames.BASIC_GET_OK: _got, frames.BASIC_DELIVER: _delivered}
"""The methods that bring a message, made anew without where it was published to."""
