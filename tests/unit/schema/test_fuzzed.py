"""Whatever is on the bus is either read, and can then be written again, or refused with an EnvelopeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.control import decode_cancel
from grundlag_bus.schema.dead_letter import read_dead_letter
from grundlag_bus.schema.envelope import decode_call, decode_reply, encode_call, encode_reply
from grundlag_bus.schema.event import decode_event, encode_event
from grundlag_bus.schema.manifest import Announcement, build_manifest
from grundlag_bus.schema.progress import decode_progress, encode_progress
from grundlag_bus.workers.status import decode_status, encode_status, ready
from tests.support.fuzzing import REAL, Mutator, almost


def _letter(body: bytes) -> None:
    letter = read_dead_letter(body)
    orjson.dumps(letter.to_json())
    if letter.call is not None:
        encode_call(letter.call)


def _status(body: bytes) -> None:
    status = decode_status(body)
    ready(status)
    sorted([status.name, "another"])
    encode_status(status)


def _announcement(body: bytes) -> None:
    announced = Announcement.decode(body)
    announced.encode()
    if announced.provider is not None:
        build_manifest([announced.provider]).encode()


READERS: dict[str, Callable[[bytes], Any]] = {
    "call": lambda body: encode_call(decode_call(body)),
    "reply": lambda body: encode_reply(decode_reply(body)),
    "progress": lambda body: encode_progress(*decode_progress(body)),
    "cancel": lambda body: decode_cancel(body).encode(),
    "event": lambda body: encode_event(decode_event(body)),
    "letter": _letter,
    "status": _status,
    "announcement": _announcement,
}


def read(kind: str, body: bytes) -> bool:
    """Read and write it; False where it is refused."""
    try:
        READERS[kind](body)
    except EnvelopeError:
        return False
    return True


@pytest.mark.parametrize("kind", READERS)
def test_a_mutated_message_is_read_or_refused(kind: str) -> None:
    mutator = Mutator(seed=7)
    taken = [read(kind, mutator.of(mutator.random.choice(REAL[kind]))) for _ in range(1500)]
    assert {True, False} == {*taken, kind != "letter"}  # a letter is never refused: an operator sees it as it is


@pytest.mark.parametrize("kind", READERS)
def test_what_is_near_a_message_is_read_or_refused(kind: str) -> None:
    @settings(max_examples=150, deadline=None)
    @given(almost(REAL[kind]))
    def hold(body: bytes) -> None:
        read(kind, body)

    hold()


@pytest.mark.parametrize("kind", ["call", "reply", "progress"])
def test_what_nests_too_deep_to_be_written_again_is_refused(kind: str) -> None:
    def body(levels: int) -> bytes:
        data = orjson.loads(REAL[kind][1 if kind == "progress" else 0])
        inner: Any = 1
        for _ in range(levels):
            inner = [inner]
        match kind:
            case "call":
                data["request"]["input"] = inner
            case "reply":
                data["response"]["result"] = inner
            case _:
                data["progress"]["items"][0]["data"] = inner
        return orjson.dumps(data)

    assert read(kind, body(200))
    assert not read(kind, body(245))
    assert not read(kind, body(200).replace(b"[" * 200, b"[" * 900).replace(b"]" * 200, b"]" * 900))


def test_much_that_is_not_deep_is_read() -> None:
    data = orjson.loads(REAL["call"][0])
    data["request"]["input"] = {"flat": [[{}]] * 1000, "text": "[{" * 1000}
    assert read("call", orjson.dumps(data))
