"""What strangers wrote reaches aiormq in frames that it can read, and what it can read reaches it unchanged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pamqp.frame
import pytest
from pamqp.commands import Basic
from pamqp.exceptions import UnmarshalingException
from pamqp.header import ContentHeader

from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.foreign import STREAM_OFFSET, UNREADABLE, readable

PROPERTIES = Basic.Properties(headers={"a": 1}, correlation_id="c1", timestamp=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "frame",
    [
        ContentHeader(body_size=3, properties=PROPERTIES),
        Basic.GetOk(1, True, "exchange", "key", 2),
        Basic.Deliver("tag", 1, False, "exchange", "key"),
        Basic.QosOk(),
    ],
)
def test_what_can_be_read_is_left_as_it_is(frame: Any) -> None:
    data = pamqp.frame.marshal(frame, 5)
    assert readable(data) == data


def test_of_properties_that_cannot_be_read_the_offset_is_left_and_the_size_of_the_body() -> None:
    table = b"\1tT" + b"\xff" * 8 + b"\x0fx-stream-offsetl" + (2**40).to_bytes(8, "big")
    payload = frames._CONTENT.pack(60, 0, 3, 1 << 13) + frames.U32.pack(len(table)) + table
    data = frames.PREFIX.pack(frames.HEADER, 5, len(payload)) + payload + frames.END
    with pytest.raises(UnmarshalingException, match="year"):
        pamqp.frame.unmarshal(data)
    _, channel, header = pamqp.frame.unmarshal(readable(data))
    assert isinstance(header, ContentHeader)
    assert (channel, header.body_size) == (5, 3)
    assert header.properties.headers == {UNREADABLE: True, STREAM_OFFSET: 2**40}


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        (Basic.GetOk(7, True, "exchange", "key", 2), Basic.GetOk(7, True, "", "", 0)),
        (Basic.Deliver("tag", 7, True, "exchange", "key"), Basic.Deliver("tag", 7, True, "", "")),
    ],
)
def test_a_routing_key_that_is_no_text_is_left_out(method: Any, kept: Any) -> None:
    data = pamqp.frame.marshal(method, 5).replace(b"key", b"\xff\xfe\xfd")
    assert readable(data) == pamqp.frame.marshal(kept, 5)
