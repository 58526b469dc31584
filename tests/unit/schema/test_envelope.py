from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.envelope import (
    Call,
    Completed,
    Failed,
    Interrupted,
    Reply,
    Request,
    Resumption,
    decode_call,
    decode_reply,
    derived_call_id,
    derived_interrupt_id,
    encode_call,
    encode_reply,
    new_call_id,
    request_from_json,
    response_from_json,
)
from grundlag_bus.schema.fields import instant_from_json, instant_to_json
from grundlag_bus.schema.trace import Trace

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TEXT = st.text(max_size=5)
ID = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
MAYBE = st.none() | TEXT
COUNT = st.integers(1, 10**6)
INSTANT = st.integers(0, 4 * 10**15).map(lambda microseconds: microseconds / 1_000_000)
OBJECT = st.dictionaries(TEXT, JSON, max_size=2)
ITEMS = st.lists(OBJECT, max_size=2)
ITEM = {"id": "i", "type": "note", "data": None, "createdAt": "2026-01-01T00:00:00Z"}
EMITTED = st.lists(JSON.map(lambda data: {**ITEM, "data": data}), max_size=2)
RESUMPTIONS = st.builds(Resumption, interrupt_id=TEXT, answer=JSON, state=TEXT, by=MAYBE)
REQUESTS = st.builds(Request, input=JSON, resumption=st.none() | RESUMPTIONS, items=ITEMS)
CALLS = st.builds(
    Call,
    call_id=ID,
    provider_id=TEXT,
    action_id=TEXT,
    request=REQUESTS,
    deadline=INSTANT,
    lane=TEXT,
    user_id=MAYBE,
    sent_at=INSTANT,
    generation=COUNT,
    attempt=COUNT,
    trace=st.none() | st.builds(Trace, st.just(f"00-{'a' * 32}-{'b' * 16}-01"), st.sampled_from([None, "rojo=1"])),
    idempotent=st.just(value=False),
)
RESPONSES = (
    st.builds(Completed, result=JSON, items=EMITTED)
    | st.builds(
        Interrupted,
        interrupt_id=TEXT,
        message=TEXT,
        data=JSON,
        state=TEXT,
        expires_at=INSTANT,
        answer_schema=st.none() | OBJECT,
        items=EMITTED,
    )
    | st.builds(Failed, code=TEXT, message=TEXT, details=JSON, retryable=st.booleans(), items=EMITTED)
)
REPLIES = st.builds(Reply, call_id=TEXT, response=RESPONSES, worker=TEXT, generation=COUNT, attempt=COUNT)

A_CALL = Call("c", "demo", "add", Request({"a": 1}), deadline=20.0, sent_at=10.0)
A_REPLY = Reply("c", Completed({"sum": 3}), "w")


def call_json(**changes: Any) -> bytes:
    return orjson.dumps({**orjson.loads(encode_call(A_CALL)), **changes})


def reply_json(**changes: Any) -> bytes:
    return orjson.dumps({**orjson.loads(encode_reply(A_REPLY)), **changes})


# --- round trips ------------------------------------------------------------------------------------------------------


@given(CALLS)
def test_a_call_round_trips(call: Call) -> None:
    assert decode_call(encode_call(call)) == call


@given(REPLIES)
def test_a_reply_round_trips(reply: Reply) -> None:
    again = decode_reply(encode_reply(reply))
    assert again == reply
    assert type(again.response) is type(reply.response)


@given(REQUESTS, RESPONSES)
def test_requests_and_responses_round_trip_on_their_own(request: Request, response: Any) -> None:
    assert request_from_json(orjson.loads(orjson.dumps(request.to_json()))) == request
    assert response_from_json(orjson.loads(orjson.dumps(response.to_json()))) == response


def test_the_wire_is_as_it_was_agreed() -> None:
    assert orjson.loads(encode_call(A_CALL)) == {
        "v": 1,
        "callId": "c",
        "generation": 1,
        "attempt": 1,
        "providerId": "demo",
        "actionId": "add",
        "lane": "main",
        "sentAt": "1970-01-01T00:00:10.000000Z",
        "deadline": "1970-01-01T00:00:20.000000Z",
        "request": {"input": {"a": 1}},
    }
    assert encode_reply(A_REPLY) == (
        b'{"v":1,"callId":"c","generation":1,"attempt":1,"worker":"w",'
        b'"response":{"status":"completed","result":{"sum":3},"items":[]}}'
    )


def test_names_in_a_users_data_are_never_changed() -> None:
    data = {"snake_case": {"camelCase": 1}}
    assert decode_call(encode_call(Call("c", "p", "a", Request(data), 1.0))).request.input == data
    failed = Failed("x", "y", details=data)
    assert decode_reply(encode_reply(Reply("c", failed, "w"))).response == failed


def test_idempotent_does_not_travel() -> None:
    call = Call("c", "p", "a", Request(1), 1.0, idempotent=True)
    assert encode_call(call) == encode_call(Call("c", "p", "a", Request(1), 1.0))


# --- tolerance --------------------------------------------------------------------------------------------------------


def test_unknown_fields_are_ignored() -> None:
    request = {"input": {"a": 1}, "new": 1, "resumption": {"interruptId": "i", "answer": 1, "state": "s", "new": 1}}
    call = decode_call(call_json(trace={"x": 1}, request=request))
    assert call.request == Request({"a": 1}, Resumption("i", 1, "s"))
    reply = decode_reply(reply_json(new=1, response={"status": "completed", "result": 1, "items": [], "new": 1}))
    assert reply.response == Completed(1)


def test_optional_fields_may_be_absent_or_null() -> None:
    call = decode_call(call_json(userId=None, request={"input": None, "resumption": None, "items": None}))
    assert (call.user_id, call.request) == (None, Request(None))
    failed = {"status": "failed", "code": "c", "message": "m"}
    assert decode_reply(reply_json(response=failed)).response == Failed("c", "m")


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None, "x" * 9000])
def test_another_version_is_refused(version: Any) -> None:
    for decode, body in ((decode_call, call_json(v=version)), (decode_reply, reply_json(v=version))):
        with pytest.raises(EnvelopeError, match="version") as caught:
            decode(body)
        assert len(caught.value.reason) < 300


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"null", b"\xff", b'{"v":NaN}', b"[" * 5000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    for decode in (decode_call, decode_reply):
        with pytest.raises(EnvelopeError, match="JSON"):
            decode(body)


@pytest.mark.parametrize(
    "name", ["callId", "providerId", "actionId", "lane", "sentAt", "deadline", "generation", "attempt", "request"]
)
def test_a_call_without_a_field_is_refused_by_its_name(name: str) -> None:
    told = orjson.loads(encode_call(A_CALL))
    del told[name]
    with pytest.raises(EnvelopeError, match=name):
        decode_call(orjson.dumps(told))


@pytest.mark.parametrize("name", ["callId", "generation", "attempt", "worker", "response"])
def test_a_reply_without_a_field_is_refused_by_its_name(name: str) -> None:
    told = orjson.loads(encode_reply(A_REPLY))
    del told[name]
    with pytest.raises(EnvelopeError, match=name):
        decode_reply(orjson.dumps(told))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("callId", 1),
        ("callId", None),
        ("providerId", []),
        ("userId", 3),
        ("generation", 0),
        ("generation", True),
        ("attempt", 1.5),
        ("attempt", "1"),
        ("deadline", 5),
        ("deadline", "soon"),
        ("deadline", "2026-01-01T00:00:00"),
        ("sentAt", "x" * 9000),
        ("request", []),
        ("request", None),
        ("request", {}),
        ("request", {"input": 1, "items": {}}),
        ("request", {"input": 1, "items": [1]}),
        ("request", {"input": 1, "resumption": []}),
        ("request", {"input": 1, "resumption": "x"}),
        ("request", {"input": 1, "resumption": 1}),
        ("request", {"input": 1, "resumption": {"interruptId": "i", "answer": 1}}),
        ("request", {"input": 1, "resumption": {"interruptId": "i", "state": "s"}}),
        ("request", {"input": 1, "resumption": {"interruptId": 1, "answer": 1, "state": "s"}}),
    ],
)
def test_a_malformed_field_of_a_call_is_refused_by_its_name(name: str, value: Any) -> None:
    words = {"request": "request|resumption|items|interruptId"}
    with pytest.raises(EnvelopeError, match=words.get(name, name)) as caught:
        decode_call(call_json(**{name: value}))
    assert len(caught.value.reason) < 300


@pytest.mark.parametrize(
    ("response", "word"),
    [
        (None, "response"),
        ([], "response"),
        ({}, "status"),
        ({"status": "done" * 1000}, "status"),
        ({"status": "completed"}, "result"),
        ({"status": "completed", "result": 1, "items": "x"}, "items"),
        ({"status": "completed", "result": 1, "items": [ITEM, {**ITEM, "id": ""}]}, "item is malformed at id"),
        ({"status": "failed", "code": "c", "message": "m", "items": [{}]}, "item is malformed at id"),
        ({"status": "failed", "message": "m"}, "code"),
        ({"status": "failed", "code": 1, "message": "m"}, "code"),
        ({"status": "interrupted", "message": "m"}, "interruptId"),
        ({"status": "interrupted", "interruptId": "i", "message": "m", "state": "s"}, "expiresAt"),
        ({"status": "interrupted", "interruptId": "i", "message": "m", "state": "s", "expiresAt": 1}, "expiresAt"),
        (
            {
                "status": "interrupted",
                "interruptId": "i",
                "message": "m",
                "state": "s",
                "expiresAt": "2026-01-01T00:00:00Z",
                "answerSchema": 3,
            },
            "answerSchema",
        ),
    ],
)
def test_a_malformed_response_is_refused_by_name(response: Any, word: str) -> None:
    with pytest.raises(EnvelopeError, match=word) as caught:
        decode_reply(reply_json(response=response))
    assert len(caught.value.reason) < 300


@given(JSON)
def test_any_json_is_decoded_or_refused(value: Any) -> None:
    for decode, make in ((decode_call, call_json), (decode_reply, reply_json)):
        for body in (orjson.dumps(value), make(request=value, response=value, callId=value, deadline=value)):
            try:
                decode(body)
            except EnvelopeError:
                continue


# --- ids and instants -------------------------------------------------------------------------------------------------


def test_ids_are_32_hexadecimal_digits() -> None:
    for made in (new_call_id(), derived_call_id("i", {"a": 1}, None), derived_interrupt_id("c", 1)):
        assert len(made) == 32
        assert int(made, 16) >= 0
    assert new_call_id() != new_call_id()


def test_the_same_answer_to_the_same_interrupt_is_the_same_call() -> None:
    assert derived_call_id("i", {"a": 1, "b": 2}, [1]) == derived_call_id("i", {"b": 2, "a": 1}, [1])
    answers = [None, True, 1, 1.5, "1", [1], {"a": 1}, {"a": None}, {}]
    assert len({derived_call_id(interrupt, answer, []) for interrupt in ("i", "j") for answer in answers}) == 18
    assert len({derived_call_id("i", True, claims) for claims in (["ada"], ["bob"], [None], None)}) == 4


def test_each_generation_has_an_interrupt_of_its_own() -> None:
    assert len({derived_interrupt_id(call, generation) for call in ("c", "d") for generation in (1, 2)}) == 4
    assert derived_interrupt_id("c", 1) == derived_interrupt_id("c", 1)


def test_an_instant_is_read_with_any_offset() -> None:
    assert instant_from_json("1970-01-01T01:00:00+01:00") == instant_from_json("1970-01-01T00:00:00Z") == 0


def test_an_instant_without_end_becomes_the_last_one() -> None:
    assert instant_to_json(math.inf) == "9999-12-31T23:59:59.000000Z"


@pytest.mark.parametrize("instant", [-1e12, -1e300, -math.inf, math.nan])
def test_an_instant_before_all_years_becomes_the_first_one(instant: float) -> None:
    assert instant_to_json(instant) == "0001-01-01T00:00:00.000000Z"
    call = Call("c" * 32, "demo", "add", Request(None), deadline=instant)
    assert decode_call(encode_call(call)).deadline < 0


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_an_instant_that_is_in_the_years_only_with_its_offset_can_be_written_again(text: str) -> None:
    assert instant_to_json(instant_from_json(text))[:4] == text[:4]


@pytest.mark.parametrize("name", ["generation", "attempt"])
@pytest.mark.parametrize("count", [0, -1, 2**63 - 1, 2**64 - 1, 1.0, True, "1", None])
def test_what_cannot_be_counted_on_is_refused(name: str, count: object) -> None:
    data = orjson.loads(encode_call(Call("c1", "calendar", "add", Request(1), deadline=1.0)))
    with pytest.raises(EnvelopeError, match=name):
        decode_call(orjson.dumps({**data, name: count}))
