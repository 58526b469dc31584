"""What crosses before a reply, and what is said to all workers: whatever comes is read, or refused with the reason."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus import Progress
from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.control import Cancel, decode_cancel
from grundlag_bus.schema.items import new_item
from grundlag_bus.schema.progress import decode_progress, encode_progress

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        (Progress(done=1), {"done": 1}),
        (Progress(done=1, total=2.5, text="half"), {"done": 1, "total": 2.5, "text": "half"}),
        (Progress(started=0.0), {"started": "1970-01-01T00:00:00.000000Z"}),
        (Progress(deferred_until=60.0), {"deferredUntil": "1970-01-01T00:01:00.000000Z"}),
    ],
)
def test_each_kind_of_progress_crosses_as_it_is(progress: Progress, told: dict[str, object]) -> None:
    body = encode_progress("c", progress)
    assert orjson.loads(body) == {"v": 1, "callId": "c", "progress": told}
    assert decode_progress(body) == ("c", progress)


def test_items_cross() -> None:
    progress = Progress(items=[new_item("a", {"b": 1}).to_json()])
    assert decode_progress(encode_progress("c", progress)) == ("c", progress)


def test_a_cancellation_crosses() -> None:
    assert decode_cancel(Cancel("c", 12.5).encode()) == Cancel("c", 12.5)


def test_a_cancellation_of_what_can_be_no_call_is_refused() -> None:
    """Workers remember what is cancelled for a day, whoever asked for it."""
    longest = "é" * 100
    assert decode_cancel(Cancel(longest, 12.5).encode()).call_id == longest
    with pytest.raises(EnvelopeError, match="'callId' has more than 200 bytes"):
        decode_cancel(Cancel(longest + "e", 12.5).encode())
    with pytest.raises(EnvelopeError, match="'callId' has a NUL"):
        decode_cancel(Cancel("c\0", 12.5).encode())


@given(ANY_JSON)
def test_whatever_is_told_as_progress_is_read_or_refused(told: object) -> None:
    with suppress(EnvelopeError):
        decode_progress(orjson.dumps({"v": 1, "callId": "c", "progress": told}))


@given(st.binary(max_size=40) | ANY_JSON.map(orjson.dumps))
def test_whatever_comes_as_a_control_message_is_read_or_refused(body: bytes) -> None:
    for read in (decode_cancel, decode_progress):
        with suppress(EnvelopeError):
            read(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"v": 1, "progress": {}}', "lacks 'callId'"),
        (b'{"v": 1, "callId": "c"}', "lacks 'progress'"),
        (b'{"v": 1, "callId": "c", "progress": []}', "no object"),
        (b'{"v": 1, "callId": "c", "progress": {"done": "1"}}', "'done' is no number but of type str"),
        (b'{"v": 1, "callId": "c", "progress": {"done": true}}', "'done' is no number but of type bool"),
        (b'{"v": 1, "callId": "c", "progress": {"items": [1]}}', "no list of objects"),
        (b'{"v": 2, "callId": "c", "progress": {}}', "has version 2"),
    ],
)
def test_a_malformed_report_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(EnvelopeError, match=why):
        decode_progress(body)
