"""The frames written and read by hand are those of pamqp, the library for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from grundlag_bus.transport import Message
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.topology import Route

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)
channels = st.integers(1, 65_535)
tags = st.integers(1, 2**63 - 1)


def decoded(data: bytes) -> list[tuple[int, Any]]:
    """Cut frames apart, and let pamqp read each. Returns channels and frames."""
    found = []
    while data:
        consumed, channel, frame = pamqp.frame.unmarshal(data)
        found.append((channel, frame))
        data = data[consumed:]
    return found


def payload(frame: Any, channel: int = 1) -> bytes:
    """Let pamqp write a frame, and return it without its prefix and end."""
    return pamqp.frame.marshal(frame, channel)[7:-1]


@given(channels, texts, texts)
def test_a_publish_is_mandatory_and_goes_to_its_route(channel: int, exchange: str, key: str) -> None:
    ((number, frame),) = decoded(frames.publish_method(channel, Route(exchange, key)))
    assert number == channel
    assert (frame.exchange, frame.routing_key, frame.mandatory, frame.immediate) == (exchange, key, True, False)


@given(
    channels,
    st.builds(Message, st.binary(max_size=300), texts, st.none() | texts, st.none() | texts),
    st.from_regex(r"[0-9a-f]{12}-[0-9]{1,9}", fullmatch=True),
    st.integers(1, 400),
)
def test_a_content_is_durable_json_with_its_properties(
    channel: int, message: Message, message_id: str, limit: int
) -> None:
    (number, header), *bodies = decoded(frames.publish_content(channel, message, message_id.encode(), limit))
    assert {number, *(each for each, _ in bodies)} == {channel}
    assert header.body_size == len(message.body)
    assert all(0 < len(body.value) <= limit for _, body in bodies)
    assert b"".join(body.value for _, body in bodies) == message.body
    properties = header.properties
    assert (properties.content_type, properties.delivery_mode) == ("application/json", 2)
    assert properties.message_id == message_id
    assert properties.message_type == message.type
    assert (properties.correlation_id, properties.reply_to) == (message.correlation_id, message.reply_to)
    assert properties.headers is None


@given(channels, tags)
def test_each_settling_is_its_own_frame(channel: int, tag: int) -> None:
    for data, kind, bits in (
        (frames.ack(channel, tag), commands.Basic.Ack, {"multiple": False}),
        (frames.nack(channel, tag), commands.Basic.Nack, {"multiple": False, "requeue": True}),
        (frames.nack(channel, tag, multiple=True), commands.Basic.Nack, {"multiple": True, "requeue": True}),
        (frames.reject(channel, tag), commands.Basic.Reject, {"requeue": False}),
    ):
        ((number, frame),) = decoded(data)
        assert number == channel
        assert isinstance(frame, kind)
        assert frame.delivery_tag == tag
        assert {name: getattr(frame, name) for name in bits} == bits


@given(tags, st.booleans(), texts)
def test_a_delivery_is_read(tag: int, redelivered: bool, text: str) -> None:
    data = payload(commands.Basic.Deliver(text, tag, redelivered, "exchange", text))
    assert frames.read_deliver(data, 4) == (tag, redelivered, text)


@given(tags, st.booleans())
def test_confirms_are_read(tag: int, multiple: bool) -> None:
    for frame in (commands.Basic.Ack(tag, multiple), commands.Basic.Nack(tag, multiple, requeue=False)):
        assert frames.read_confirm(payload(frame), 4) == (tag, multiple)


@given(st.integers(0, 65_535), texts)
def test_reasons_are_read(code: int, text: str) -> None:
    for frame in (
        commands.Channel.Close(code, text, 60, 40),
        commands.Connection.Close(code, text, 0, 0),
        commands.Basic.Return(code, text, "exchange", "key"),
    ):
        assert frames.read_reason(payload(frame), 4) == (code, text)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content_type": texts,
            "content_encoding": texts,
            "headers": st.dictionaries(st.text("abc-", min_size=1), st.integers(0, 9) | texts, max_size=3),
            "delivery_mode": st.integers(1, 2),
            "priority": st.integers(0, 9),
            "correlation_id": texts,
            "reply_to": texts,
            "expiration": texts,
            "message_id": texts,
            "timestamp": st.just(datetime(2026, 1, 1, tzinfo=UTC)),
            "message_type": texts,
            "user_id": texts,
            "app_id": texts,
        },
    ),
    st.integers(0, 2**40),
)
def test_properties_are_read_whatever_else_is_among_them(given_: dict[str, Any], size: int) -> None:
    header = ContentHeader(body_size=size, properties=commands.Basic.Properties(**given_))
    read = frames.read_properties(payload(header), 0)
    # pamqp leaves out what is empty, so that an empty text is none.
    expected = [given_.get(name) or None for name in ("correlation_id", "reply_to", "message_id")]
    assert [text or None for text in (read.correlation_id, read.reply_to, read.message_id)] == expected
    assert read.body_size == size
    assert read.type == given_.get("message_type", "")


def test_what_is_no_unicode_is_read_with_marks() -> None:
    assert frames.read_short(b"\x02\xffa", 0) == "\ufffda"


def test_a_text_over_255_bytes_is_refused() -> None:
    assert frames.short("é" * 127 + "x") == b"\xff" + "é".encode() * 127 + b"x"
    with pytest.raises(ValueError, match="255"):
        frames.short("é" * 128)


def test_the_constants_are_those_of_the_protocol() -> None:
    named: dict[int, Any] = {
        frames.CONNECTION_CLOSE: commands.Connection.Close,
        frames.CONNECTION_BLOCKED: commands.Connection.Blocked,
        frames.CONNECTION_UNBLOCKED: commands.Connection.Unblocked,
        frames.CHANNEL_CLOSE: commands.Channel.Close,
        frames.CHANNEL_CLOSE_OK: commands.Channel.CloseOk,
        frames.BASIC_CANCEL: commands.Basic.Cancel,
        frames.BASIC_PUBLISH: commands.Basic.Publish,
        frames.BASIC_RETURN: commands.Basic.Return,
        frames.BASIC_DELIVER: commands.Basic.Deliver,
        frames.BASIC_GET_OK: commands.Basic.GetOk,
        frames.BASIC_ACK: commands.Basic.Ack,
        frames.BASIC_NACK: commands.Basic.Nack,
        frames.BASIC_REJECT: commands.Basic.Reject,
    }
    assert all(number == kind.index for number, kind in named.items())
    assert pamqp.frame.marshal(Heartbeat(), 0) == frames.HEARTBEAT_FRAME
    assert len(pamqp.frame.marshal(ContentBody(b""), 0)) == frames.OVERHEAD


table_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | texts
    | st.binary(max_size=30).map(bytearray)
    | st.decimals(0, 1000, places=2)
    | st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text("abc", min_size=1), values, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(texts.filter(lambda name: name != "x-delivery-count"), table_values, max_size=4)


def a_header(*tables: dict[str, Any]) -> bytes:
    headers = {name: value for table in tables for name, value in table.items()}
    properties = commands.Basic.Properties(
        content_type="application/json", content_encoding="x", headers=headers, message_id="m"
    )
    return payload(ContentHeader(body_size=1, properties=properties))


@given(tables, tables, st.integers(0, 2**40))
def test_the_delivery_count_is_found_among_all_headers(
    before: dict[str, Any], after: dict[str, Any], count: int
) -> None:
    assert frames.read_delivery_count(a_header(before, {"x-delivery-count": count}, after), 0) == count


@given(tables)
def test_without_a_delivery_count_nothing_was_lost(headers: dict[str, Any]) -> None:
    inside = {"x-death": [{"x-delivery-count": 5}], "text": "\x10x-delivery-countI\0\0\0\7"}
    assert frames.read_delivery_count(a_header(headers, inside), 0) == 0
    assert frames.read_delivery_count(payload(ContentHeader(body_size=1)), 0) == 0


def test_a_header_of_an_unknown_type_ends_the_search() -> None:
    table = b"\x01aX\0\0\x10x-delivery-countI\0\0\0\7"
    header = frames._CONTENT.pack(60, 0, 1, 1 << 13) + frames.U32.pack(len(table)) + table
    assert frames.read_delivery_count(header, 0) == 0
