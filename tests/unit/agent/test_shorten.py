from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus.agent.shorten import shorten
from grundlag_bus.schema.codec import encoded_size, plain

json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=40,
)


@given(json_data, st.integers(40, 2000))
def test_what_is_kept_fits_and_is_json_data_of_the_same_kind(value: Any, limit: int) -> None:
    kept, missing = shorten(value, limit)
    assert encoded_size(kept) <= limit
    assert plain(kept) == kept
    assert type(kept) is type(value)
    if missing is None:
        assert kept == value
    else:
        assert (missing.size, missing.limit) == (encoded_size(value), limit)
        assert missing.left_out


def test_what_fits_exactly_is_whole() -> None:
    assert shorten("x" * 98, 100) == ("x" * 98, None)
    assert shorten([1, 2], 5) == ([1, 2], None)


def test_the_first_elements_of_a_list_are_kept_whole() -> None:
    kept, missing = shorten([{"n": number} for number in range(100)], 100)
    assert kept == [{"n": number} for number in range(len(kept))]
    assert missing is not None
    assert missing.left_out == (f"the result itself: the last {100 - len(kept)} of 100 elements",)


def test_the_large_field_of_an_object_is_shortened_and_the_small_ones_stay() -> None:
    kept, missing = shorten({"count": 1000, "events": [{"title": "Lunch"}] * 1000, "next": "p2"}, 500)
    assert (kept["count"], kept["next"]) == (1000, "p2")
    assert 0 < len(kept["events"]) < 40
    assert missing is not None
    assert missing.left_out == (f"events: the last {1000 - len(kept['events'])} of 1000 elements",)


def test_an_element_that_is_too_large_alone_is_shortened_within() -> None:
    kept, missing = shorten([{"text": "x" * 1000}], 200)
    assert kept[0]["text"].startswith("xxx")
    assert missing is not None
    assert [phrase.partition(":")[0] for phrase in missing.left_out] == ["0.text"]


@pytest.mark.parametrize("text", ["ä" * 1000, "\n" * 1000, "😀" * 1000, "\u0001" * 1000])
def test_text_is_cut_between_characters(text: str) -> None:
    kept, _ = shorten(text, 100)
    assert text.startswith(kept)
    assert 80 <= encoded_size(kept) <= 100 or encoded_size(kept) >= 90


def test_what_is_given_is_not_changed() -> None:
    value = {"events": [{"title": "x" * 100} for _ in range(10)]}
    shorten(value, 200)
    assert value == {"events": [{"title": "x" * 100} for _ in range(10)]}


def test_an_object_of_very_many_fields_is_shortened_in_one_go_and_told_in_one_phrase() -> None:
    kept, missing = shorten({f"field {number}": number for number in range(200_000)}, 1000)
    assert 800 < encoded_size(kept) <= 1000
    assert missing is not None
    (phrase,) = missing.left_out
    assert phrase.startswith("the result itself: without field ")
    assert phrase.endswith(f" and {200_000 - len(kept) - 5} more")


def test_a_field_that_cannot_be_shortened_is_left_out() -> None:
    kept, missing = shorten({"key": "x" * 200, "small": 1, "numbers": {"a": 10**18, "b": 10**18}}, 50)
    assert kept == {"small": 1}
    assert missing is not None
    assert missing.left_out == ("the result itself: without key, numbers",)


def test_a_number_is_left_out_as_a_whole() -> None:
    assert shorten(12345, 4)[0] is None


def test_the_first_of_several_elements_is_shortened_when_it_alone_is_too_large() -> None:
    kept, missing = shorten(["x" * 1000, "y"], 200)
    assert kept == ["x" * 196]
    assert missing is not None
    assert missing.left_out == (
        "0: the last 804 of 1000 characters",
        "the result itself: the last 1 of 2 elements",
    )
