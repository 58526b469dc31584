from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from grundlag_bus.errors import EnvelopeError, NotJsonError
from grundlag_bus.schema.items import Item, new_item


def test_a_new_item_has_an_id_and_a_time_of_its_own() -> None:
    before = datetime.now(UTC)
    first, second = new_item("event", {"a": 1}), new_item("event", {"a": 1})
    assert first.id != second.id
    assert before <= first.created_at <= datetime.now(UTC)


def test_an_item_round_trips_and_its_data_is_left_alone() -> None:
    item = new_item("event", {"snake_case": {"camelCase": None}})
    told = item.to_json()
    assert set(told) == {"id", "type", "data", "createdAt"}
    assert told["createdAt"].endswith("Z")
    assert Item.from_json(told) == item


def test_data_is_copied_as_plain_data() -> None:
    data = {"tags": ("a",)}
    item = new_item("event", data)
    assert item.data == {"tags": ["a"]}
    with pytest.raises(NotJsonError):
        new_item("event", {"x": math.nan})


def test_unknown_fields_are_ignored_and_items_are_frozen() -> None:
    item = Item.from_json({**new_item("event", 1).to_json(), "new": True})
    with pytest.raises(ValidationError):
        item.type = "other"  # type: ignore[misc]  # what is refused


@pytest.mark.parametrize(
    "change",
    [
        {"id": None},
        {"id": ""},
        {"type": 3},
        {"createdAt": "2026-01-01T00:00:00"},
        {"createdAt": "x" * 9000},
        {"createdAt": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_a_malformed_item_is_refused_by_place(change: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError, match=next(iter(change))) as caught:
        Item.from_json({**new_item("event", 1).to_json(), **change})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("told", [None, [], "x", {}, {"id": "a"}])
def test_what_is_no_item_is_refused(told: Any) -> None:
    with pytest.raises(EnvelopeError):
        Item.from_json(told)


def test_a_time_with_an_offset_is_read_in_utc() -> None:
    item = Item.from_json({**new_item("event", 1).to_json(), "createdAt": "2026-01-01T02:00:00+02:00"})
    assert item.to_json()["createdAt"] == "2026-01-01T00:00:00Z"
