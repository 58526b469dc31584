"""Publishes what no client of this package would: properties as raw bytes."""

from __future__ import annotations

from struct import pack

from grundlag_bus.transport.rabbitmq import RabbitTransport, frames
from grundlag_bus.transport.topology import Route

NO_TEXT = (1 << 10, b"\2\xff\xfe")
"""A correlation id that is no UTF-8, as flags and bytes."""
NO_TIME = (1 << 6, pack(">Q", 2**62))
"""A timestamp of no calendar."""
NO_TIME_IN_TABLE = (1 << 13, pack(">I", 11) + b"\1tT" + pack(">Q", 2**62))
"""A header that is such a timestamp."""
TEXT_AS_DEATH = (1 << 13, pack(">I", 14) + b"\7x-deathS" + pack(">I", 1) + b"x")
"""A note of a dead letter in the shape of none."""


async def publish_as_stranger(
    transport: RabbitTransport, route: Route, body: bytes, properties: tuple[int, bytes], key: bytes | None = None
) -> None:
    """Publish on a channel of its own, and return when the broker has it. key: instead of the route's."""
    connection = transport._links[0].connection
    assert connection is not None
    channel = await connection.channel()
    key = route.routing_key.encode() if key is None else key
    method = pack(">I", frames.BASIC_PUBLISH) + b"\0\0" + frames.short(route.exchange) + bytes((len(key),)) + key
    flags, values = properties
    header = pack(">HHQH", 60, 0, len(body), flags) + values
    parts = [(frames.METHOD, method + b"\0"), (frames.HEADER, header), *([(frames.BODY, body)] if body else [])]
    for kind, payload in parts:
        connection.wire.send(frames.PREFIX.pack(kind, channel.number, len(payload)) + payload + frames.END)
    await connection.close_channel(channel)
