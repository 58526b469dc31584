from __future__ import annotations

import orjson
import pytest

from grundlag_bus.schema.dead_letter import DeadLetter, Death, read_dead_letter
from grundlag_bus.schema.envelope import Call, Failed, Request, encode_call

CALL = Call("c1", "calendar", "createEvent", Request({"title": "Lunch"}), deadline=60.0, attempt=2, generation=3)
QUEUE = "grundlag.1.calls.calendar.main"


def test_what_a_worker_wrote_is_read_as_it_was() -> None:
    response = Failed("attempts_exhausted", "It failed.", {"starts": 5})
    letter = read_dead_letter(DeadLetter(response, "w1", 1.5, CALL).encode())
    assert (letter.id, letter.call, letter.worker, letter.died_at, letter.starts) == ("c1", CALL, "w1", 1.5, 5)
    assert letter.reason.to_json() == {"code": "attempts_exhausted", "message": "It failed.", "details": {"starts": 5}}
    assert letter.can_be_redriven
    assert letter.to_json()["call"] == orjson.loads(encode_call(CALL))


@pytest.mark.parametrize(
    ("death", "code", "redrivable"),
    [
        (Death("rejected", QUEUE, 9.0), "refused", True),
        (Death("rejected", "grundlag.1.calls.notes.main", 9.0), "envelope_refused", False),
        (Death("expired", "grundlag.1.delay.03", 9.0), "provider_unavailable", True),
        (Death("expired", QUEUE, 9.0), "evicted", True),
        (Death("maxlen", QUEUE, 9.0), "evicted", True),
        (Death("maxlen", "grundlag.1.calls.notes.main", 9.0), "envelope_refused", False),
        (Death("delivery_limit", "grundlag.1.calls.notes.main", 9.0), "envelope_refused", False),
        (Death("something new", QUEUE, 9.0), "evicted", True),
        (Death("delivery_limit", QUEUE, 9.0), "delivery_limit", True),
        (None, "unexplained", True),
    ],
)
def test_a_bare_call_is_explained_by_the_brokers_note(death: Death | None, code: str, redrivable: bool) -> None:
    letter = read_dead_letter(encode_call(CALL), death)
    assert (letter.id, letter.call, letter.starts) == ("c1", CALL, 2)
    assert (letter.reason.code, letter.can_be_redriven) == (code, redrivable)
    assert letter.died_at == (9.0 if death else None)


@pytest.mark.parametrize(
    ("body", "told", "known_by"),
    [
        (b"\xff\x00no json", "the body is no JSON", None),
        (b"[1]", "the body is no JSON object", None),
        (b'{"v":2,"callId":"c2"}', "version 2", "c2"),
        (b'{"v":1,"callId":"a b"}', "lacks 'providerId'", None),
        (b'{"v":1,"callId":"\\u001b[31m"}', "lacks 'providerId'", None),
    ],
)
def test_what_cannot_be_read_says_why_and_is_known_by_its_id_or_digest(
    body: bytes, told: str, known_by: str | None
) -> None:
    letter = read_dead_letter(body, Death("rejected", QUEUE, 9.0))
    assert (letter.reason.code, letter.call, letter.can_be_redriven) == ("envelope_refused", None, False)
    assert told in letter.reason.message
    assert letter.id == known_by or (known_by is None and len(letter.id) == 32)
    assert letter.id == read_dead_letter(body, None).id
    assert isinstance(letter.to_json()["body"], str)


@pytest.mark.parametrize("call", [None, 7, {}, {"v": 2, "callId": "c3"}])
def test_a_cover_around_something_unreadable_keeps_its_reason(call: object) -> None:
    body = orjson.dumps({"v": 1, "diedAt": 7, "worker": 7, "reason": {"code": 7, "details": [1]}, "call": call})
    letter = read_dead_letter(body)
    assert (letter.reason.code, letter.call, letter.worker, letter.died_at) == ("7", None, None, None)
    assert not letter.can_be_redriven


def test_a_made_up_letter_that_came_from_a_call_queue_is_no_letter() -> None:
    made_up = DeadLetter(Failed("attempts_exhausted", "It failed."), "w1", 1.5, CALL).encode()
    letter = read_dead_letter(made_up, Death("rejected", "grundlag.1.calls.notes.main", 9.0))
    assert (letter.reason.code, letter.call, letter.can_be_redriven) == ("envelope_refused", None, False)


@pytest.mark.parametrize("cover", [b'{"reason":{"code":"x"},"call":%s}', b"%s"])
def test_what_nests_deeper_than_can_be_written_hides_no_other_letter(cover: bytes) -> None:
    body = cover % encode_call(CALL).replace(b'{"title":"Lunch"}', b"[" * 900 + b"]" * 900)
    letter = read_dead_letter(body)
    assert letter.call is None
    assert orjson.dumps(letter.to_json())
