"""Server-sent events: whatever the pieces that they come in, and within their limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus.adapters.http.sse import EventReader, Sent
from grundlag_bus.errors import EnvelopeError

STREAM = (
    b'\xef\xbb\xbf: listening\n\nevent: progress\ndata: {"done": 1}\n\n'
    b"data: a\r\ndata:b\rdata:  c\n\n: alive\nid: 7\nretry: 5\nunknown\n\nevent: reply\r\n\r\n"
    b"data\n\ndata: last\r\n\r\n"
    b"event: reply\ndata: cut off\n"
)
EVENTS = [
    Sent("", b"listening"),
    Sent("progress", b'{"done": 1}'),
    Sent("message", b"a\nb\n c"),
    Sent("", b"alive"),
    Sent("message", b""),
    Sent("message", b"last"),
]


def read(*chunks: bytes, limit: int = 1000) -> list[Sent]:
    reader = EventReader(limit=limit)
    return [sent for chunk in chunks for sent in reader.feed(chunk)]


def test_events_and_comments_are_read_and_what_is_cut_off_is_not() -> None:
    assert read(STREAM) == EVENTS


def test_an_event_may_come_byte_by_byte() -> None:
    assert read(*(bytes([byte]) for byte in STREAM)) == EVENTS


@given(st.sets(st.integers(0, len(STREAM))))
def test_an_event_may_come_in_any_pieces(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    assert read(*(STREAM[start:end] for start, end in pairwise(places))) == EVENTS


@pytest.mark.parametrize("chunk", [b"data: xxxx\n", b"x" * 11])
def test_an_event_that_is_too_large_is_refused_before_it_ends(chunk: bytes) -> None:
    with pytest.raises(EnvelopeError, match="more than 100 bytes"):
        read(*(chunk for _ in range(20)), limit=100)


def test_many_events_within_the_limit_are_read() -> None:
    assert len(read(b"data: 0123456789\n\n" * 1000, limit=100)) == 1000
