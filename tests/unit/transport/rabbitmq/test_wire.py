"""The wire: hot frames are taken out, all others reach aiormq unchanged and in order, however the bytes are cut."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import aiormq
import pamqp.frame
import pytest
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader, ProtocolHeader
from pamqp.heartbeat import Heartbeat

from grundlag_bus.transport import Message
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.wire import Taker, Wire, WireFactory
from tests.support.sockets import Socket

Properties = commands.Basic.Properties


class Heard(Taker):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def delivered(self, tag: int, message: Message, *, redelivered: bool, lost: int) -> None:
        self.events.append(("delivered", tag, message, redelivered, lost))

    def returned(self, message_id: str | None, reason: str) -> None:
        self.events.append(("returned", message_id, reason))

    def confirmed(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        self.events.append(("confirmed", tag, multiple, accepted))

    def cancelled(self, tag: str) -> None:
        self.events.append(("cancelled", tag))

    def closed(self, reason: str) -> None:
        self.events.append(("closed", reason))

    def blocked(self, reason: str | None) -> None:
        self.events.append(("blocked", reason))

    def writable(self) -> None:
        self.events.append(("writable",))


def frame(frame: Any, channel: int) -> bytes:
    return pamqp.frame.marshal(frame, channel)


def content(method: Any, channel: int, body: bytes, *pieces: int, **properties: Any) -> bytes:
    header = ContentHeader(body_size=len(body), properties=Properties(**properties))
    data = frame(method, channel) + frame(header, channel)
    for size in pieces or ((len(body),) if body else ()):
        data += frame(ContentBody(body[:size]), channel)
        body = body[size:]
    return data


def deliver(tag: int, *, redelivered: bool = False) -> commands.Basic.Deliver:
    return commands.Basic.Deliver("consumer", tag, redelivered, "exchange", "key")


COLD = [
    frame(commands.Channel.OpenOk(), 3),
    frame(commands.Queue.DeclareOk("q", 1, 0), 3),
    frame(Heartbeat(), 0),
    frame(commands.Basic.ConsumeOk("consumer"), 3),
    content(deliver(9), 7, b"to a channel of aiormq's", correlation_id="x"),
    frame(commands.Basic.Ack(1), 7),
    frame(commands.Connection.Blocked("memory"), 0),
    frame(commands.Connection.Unblocked(), 0),
    frame(commands.Basic.Cancel("consumer"), 3),
    frame(commands.Channel.Close(406, "PRECONDITION_FAILED - x", 60, 80), 3),
]
HOT = [
    content(deliver(1), 3, b"", message_type="empty"),
    content(deliver(2, redelivered=True), 3, b"one piece", message_type="call", correlation_id="c", reply_to="r"),
    content(deliver(3), 3, b"in three pieces", 2, 5, 8, message_type="call", headers={"x-delivery-count": 2}),
    content(deliver(4, redelivered=True), 3, b"lost", message_type="call", headers={"x-delivery-count": 2}),
    frame(commands.Basic.Ack(5, multiple=True), 3),
    frame(commands.Basic.Nack(6), 3),
    content(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), 3, b"body", message_id="m-1"),
    frame(commands.Basic.Ack(7), 3),
]
HEARD = [
    ("delivered", 1, Message(b"", "empty"), False, 0),
    ("delivered", 2, Message(b"one piece", "call", "c", "r"), True, 0),
    ("delivered", 3, Message(b"in three pieces", "call"), False, 0),
    ("delivered", 4, Message(b"lost", "call"), True, 2),
    ("confirmed", 5, True, True),
    ("confirmed", 6, False, False),
    ("returned", "m-1", "NO_ROUTE"),
    ("confirmed", 7, False, True),
    ("blocked", "memory"),
    ("blocked", None),
    ("cancelled", "consumer"),
    ("closed", "PRECONDITION_FAILED - x"),
]


@pytest.fixture
async def wire() -> Wire:
    return Wire(asyncio.get_running_loop())


@pytest.mark.parametrize("seed", range(40))
async def test_however_bytes_are_cut_hot_frames_are_taken_and_the_rest_passes(wire: Wire, seed: int) -> None:
    chance = random.Random(seed)
    Socket(wire)
    heard = Heard()
    wire.takers[3] = heard
    stream = b"".join([*COLD[:6], *HOT, *COLD[6:]])
    while stream:
        size = chance.choice((1, 3, 20, 200, len(stream)))
        wire.data_received(stream[:size])
        stream = stream[size:]
    assert heard.events == HEARD
    wire.reader.feed_eof()
    assert await wire.reader.read() == b"".join(COLD)


async def test_a_large_body_is_whole(wire: Wire) -> None:
    heard = Heard()
    wire.takers[1] = heard
    body = random.Random(1).randbytes(500_000)
    stream = content(deliver(1), 1, body, *(131_064,) * 3, 106_808)
    for start in range(0, len(stream), 60_000):
        wire.data_received(stream[start : start + 60_000])
    assert [event[2].body for event in heard.events] == [body]


async def test_contents_on_two_channels_do_not_mix(wire: Wire) -> None:
    first, second = Heard(), Heard()
    wire.takers.update({1: first, 2: second})
    one, two = (content(deliver(channel), channel, b"%d" % channel * 9, 4, 5) for channel in (1, 2))

    def cut(data: bytes) -> list[bytes]:
        found = []
        while data:
            size = pamqp.frame.unmarshal(data)[0]
            found.append(data[:size])
            data = data[size:]
        return found

    for pieces in zip(cut(one), cut(two), strict=True):
        wire.data_received(b"".join(pieces))
    assert [event[2].body for event in first.events + second.events] == [b"1" * 9, b"2" * 9]


async def test_after_its_channel_was_closed_a_taker_hears_nothing(wire: Wire) -> None:
    heard = Heard()
    wire.takers[3] = heard
    wire.data_received(frame(commands.Channel.Close(404, "gone", 60, 40), 3) + frame(commands.Basic.Ack(1), 3))
    assert heard.events == [("closed", "gone")]


async def test_a_number_is_free_as_soon_as_the_broker_says_that_its_channel_is_closed(wire: Wire) -> None:
    heard = Heard()
    wire.takers[3] = heard
    close_ok = frame(commands.Channel.CloseOk(), 3)
    next_one = frame(commands.Channel.OpenOk(), 3) + content(deliver(1), 3, b"to another")
    wire.data_received(content(deliver(1), 3, b"late")[:-4])
    wire.data_received(content(deliver(1), 3, b"late")[-4:] + close_ok + next_one)
    assert [event[0] for event in heard.events] == ["delivered"]
    wire.reader.feed_eof()
    assert await wire.reader.read() == close_ok + next_one


async def test_what_is_no_amqp_reaches_aiormq_as_it_is(wire: Wire) -> None:
    for data in (ProtocolHeader().marshal(), b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        fresh = Wire(asyncio.get_running_loop())
        fresh.data_received(data)
        fresh.data_received(b"more")
        fresh.reader.feed_eof()
        assert await fresh.reader.read() == data + b"more"


async def test_what_is_sent_in_one_turn_is_one_write(wire: Wire) -> None:
    socket = Socket(wire)
    wire.send(b"a")
    wire.send(b"b")
    assert socket.writes == []
    await asyncio.sleep(0)
    assert socket.writes == [b"ab"]
    wire.send(b"c")
    wire.flush()
    await asyncio.sleep(0)
    assert socket.writes == [b"ab", b"c"]


async def test_much_in_one_turn_is_written_at_once(wire: Wire) -> None:
    socket = Socket(wire)
    wire.send(b"x" * 100_000)
    wire.send(b"y")
    assert socket.writes == [b"x" * 100_000]
    await asyncio.sleep(0)
    assert socket.written == b"x" * 100_000 + b"y"


async def test_a_full_socket_is_told_and_when_it_is_free_again(wire: Wire) -> None:
    Socket(wire)
    heard = Heard()
    wire.takers[1] = heard
    wire.pause_writing()
    assert wire.full
    assert heard.events == []
    wire.resume_writing()
    assert not wire.full
    assert heard.events == [("writable",)]


async def test_losing_the_connection_tells_everyone_why_once(wire: Wire) -> None:
    socket = Socket(wire)
    heard = Heard()
    wire.takers[1] = heard
    wire.data_received(frame(commands.Connection.Close(320, "CONNECTION_FORCED - bye", 0, 0), 0))
    wire.connection_lost(None)
    assert await wire.lost == "320 CONNECTION_FORCED - bye"
    assert heard.events == [("closed", "320 CONNECTION_FORCED - bye")]
    wire.send(b"late")
    await asyncio.sleep(0)
    assert socket.writes == []


async def test_a_broker_may_hang_up_while_the_loop_is_blocked() -> None:
    failures: list[dict[str, Any]] = []
    connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    server = await asyncio.start_server(lambda _, writer: connected.put_nowait(writer), "127.0.0.1", 0)
    wire = Wire(loop)
    await loop.create_connection(lambda: wire, *server.sockets[0].getsockname())
    writer = await connected.get()
    wire.listen(0.08)
    writer.write_eof()
    time.sleep(0.3)  # noqa: ASYNC251  so that the end and a tick come in one turn of the loop
    await wire.lost
    assert failures == []
    writer.transport.abort()
    server.close()


async def test_a_broker_that_hung_up_has_ended_the_connection_also_where_it_reads_no_more() -> None:
    hung_up: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def broker(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's can
        writer.write_eof()
        hung_up.put_nowait(writer)

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    wire = Wire(loop)
    await loop.create_connection(lambda: wire, *server.sockets[0].getsockname())
    wire.listen(0.08)
    wire.send(bytes(32 * 1024 * 1024))  # more than sockets take
    writer = await hung_up.get()
    async with asyncio.timeout(5):
        assert await wire.lost == "the broker hung up"
    writer.transport.abort()
    server.close()


async def test_silence_ends_the_connection_and_anything_heard_keeps_it(wire: Wire) -> None:
    Socket(wire)
    wire.listen(0.08)
    for _ in range(20):
        wire.data_received(frames.HEARTBEAT_FRAME)
        await asyncio.sleep(0.02)
    assert not wire.lost.done()
    async with asyncio.timeout(5):
        assert (await wire.lost).startswith("nothing was heard")


async def test_aiormq_hears_a_heartbeat_where_only_hot_frames_came(wire: Wire) -> None:
    """It counts silence too, and by what it sees itself."""
    Socket(wire)
    wire.takers[1] = Heard()
    wire.listen(0.08)
    wire.data_received(frame(commands.Basic.Ack(1), 1))
    async with asyncio.timeout(5):
        assert await wire.reader.readexactly(8) == frames.HEARTBEAT_FRAME
    wire.abort("enough")
    await wire.lost


async def test_the_pinned_aiormq_talks_over_a_stream_of_ours() -> None:
    """What this package relies on beyond aiormq's documented API; an upgrade that changes it fails here."""
    talked: list[bytes] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talked.append(await reader.readexactly(8))
        properties: Any = {"capabilities": {"publisher_confirms": True, "basic.nack": True}}
        channel = 0
        for answer, asked in (
            (commands.Connection.Start(0, 9, properties, "PLAIN", "en_US"), commands.Connection.StartOk),
            (commands.Connection.Tune(2047, 131_072, 60), commands.Connection.TuneOk),
            (None, commands.Connection.Open),
            (commands.Connection.OpenOk(), commands.Channel.Open),
        ):
            if answer is not None:
                writer.write(frame(answer, 0))
            _, channel, found = await next_frame(reader)
            assert isinstance(found, asked), found
        writer.write(frame(commands.Channel.OpenOk(), channel))
        talked.append(b"opened")
        await reader.read()
        writer.close()

    async def next_frame(reader: asyncio.StreamReader) -> tuple[int, int, Any]:
        prefix = await reader.readexactly(7)
        rest = await reader.readexactly(frames.PREFIX.unpack(prefix)[2] + 1)
        return pamqp.frame.unmarshal(prefix + rest)

    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    factory = WireFactory("127.0.0.1", port, None)
    connection = aiormq.Connection(f"amqp://127.0.0.1:{port}/?heartbeat=4", transport_factory=factory)
    connection.vhost = "any/vhost"
    await connection.connect()
    channel = await connection.channel(publisher_confirms=False)
    assert talked == [b"AMQP\0\0\x09\x01", b"opened"]
    assert connection.connection_tune.frame_max == 131_072
    assert channel.number == 1
    assert "consumers" in vars(channel)
    factory.wire.abort("done")
    await factory.wire.lost
    await connection.close()
    assert channel.is_closed
    server.close()
