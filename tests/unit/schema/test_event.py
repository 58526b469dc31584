"""The event envelope and the patterns that listeners give."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from grundlag_bus.errors import ConfigurationError, EnvelopeError
from grundlag_bus.schema.event import EmittedEvent, check_pattern, decode_event, derived_event_id, encode_event

EVENT = EmittedEvent("1f", "calendar", "moved", "c1", datetime(2026, 12, 1, 12, 0, 0, 5, UTC), {"a": [1, None]}, "ada")


def test_an_event_is_camel_case_on_the_wire_and_its_data_is_left_alone() -> None:
    assert orjson.loads(encode_event(EVENT)) == {
        "v": 1,
        "id": "1f",
        "providerId": "calendar",
        "eventId": "moved",
        "callId": "c1",
        "userId": "ada",
        "at": "2026-12-01T12:00:00.000005Z",
        "data": {"a": [1, None]},
    }


def test_an_event_comes_back_as_it_was() -> None:
    assert decode_event(encode_event(EVENT)) == EVENT


def test_unknown_fields_are_ignored_and_the_user_may_be_absent() -> None:
    told = {**orjson.loads(encode_event(EVENT)), "newer": True}
    del told["userId"]
    assert decode_event(orjson.dumps(told)).user_id is None


@pytest.mark.parametrize("field", ["v", "id", "providerId", "eventId", "callId", "at", "data"])
def test_a_missing_field_is_named(field: str) -> None:
    told = orjson.loads(encode_event(EVENT))
    del told[field]
    with pytest.raises(EnvelopeError, match="version" if field == "v" else field):
        decode_event(orjson.dumps(told))


@pytest.mark.parametrize(("field", "value"), [("v", 2), ("id", 7), ("at", "yesterday"), ("at", "2026-12-01T12:00:00")])
def test_a_field_of_another_kind_is_refused(field: str, value: object) -> None:
    with pytest.raises(EnvelopeError):
        decode_event(orjson.dumps({**orjson.loads(encode_event(EVENT)), field: value}))


def test_data_that_is_too_deep_is_refused() -> None:
    body = encode_event(EVENT).replace(b"[1,null]", b"[" * 200 + b"]" * 200)
    with pytest.raises(EnvelopeError, match="levels"):
        decode_event(body)


def test_the_id_of_an_event_is_that_of_its_place_in_the_start_of_its_call() -> None:
    ids = {derived_event_id(c, g, o) for c in ("a", "b") for g in (1, 11) for o in (1, 2, 11)}
    assert len(ids) == 12
    assert derived_event_id("a", 1, 1) == derived_event_id("a", 1, 1)


@pytest.mark.parametrize(
    "pattern", ["#", "*.*", "calendar.*", "*.moved", "calendar.moved", "#.moved", "calendar.#", "#.#"]
)
def test_a_pattern_that_can_match_is_allowed(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["", ".", "*", "calendar", "a.b.c", "#.a.b.c", "a.*x", "a b.c", "ä.b", "a.b\n"])
def test_a_pattern_that_cannot_match_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="matches no event"):
        check_pattern(pattern)
