from __future__ import annotations

import keyword
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.names import allocate_action_names, check_id

IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,39}", fullmatch=True)
FEW = st.text("aA_-2", min_size=1, max_size=4).map(lambda text: f"x{text}")
LONG = st.integers(0, 99).map(lambda number: f"a{'b' * 37}{number:02}")
ACTIONS = st.lists(st.tuples(IDS | FEW | LONG, IDS | FEW | LONG), max_size=30)


@pytest.mark.parametrize(
    ("provider_id", "action_id", "name"),
    [
        ("calendar", "createEvent", "calendarCreateEvent"),
        ("demo", "add", "demoAdd"),
        ("my-thing", "do_it", "myThingDoIt"),
        ("MyThing", "run", "myThingRun"),
        ("HTTP", "get", "httpGet"),
        ("a1", "b2", "a1B2"),
        ("x--y", "z_", "xYZ"),
    ],
)
def test_a_function_name_is_the_camel_case_of_both_ids(provider_id: str, action_id: str, name: str) -> None:
    assert allocate_action_names([(provider_id, action_id)]) == {(provider_id, action_id): name}


def test_equal_names_are_numbered_in_the_order_of_the_ids() -> None:
    names = allocate_action_names([("p", "x_"), ("p", "x-"), ("p", "x"), ("P", "x")])
    assert names == {("P", "x"): "pX", ("p", "x"): "pX_2", ("p", "x-"): "pX_3", ("p", "x_"): "pX_4"}


def test_long_names_are_cut_before_they_are_numbered() -> None:
    first, second = ("p" * 40, "a" * 40), ("p" * 40, "a" * 39)
    names = allocate_action_names([first, second])
    assert sorted(len(name) for name in names.values()) == [64, 64]
    assert names[second].endswith("aa")
    assert names[first].endswith("aa_2")


@given(ACTIONS, st.randoms(use_true_random=False))
def test_names_are_unique_identifiers_whatever_the_order(actions: list[tuple[str, str]], random: Random) -> None:
    names = allocate_action_names(actions)
    assert set(names) == set(actions)
    assert len(set(names.values())) == len(names)
    for name in names.values():
        assert name.isidentifier()
        assert name.isascii()
        assert not keyword.iskeyword(name)
        assert len(name) <= 64
    shuffled = list(actions)
    random.shuffle(shuffled)
    assert allocate_action_names(shuffled) == names


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=20))
def test_ids_from_elsewhere_still_give_unique_identifiers(actions: list[tuple[str, str]]) -> None:
    names = allocate_action_names(actions)
    assert len(set(names.values())) == len(set(actions))
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names.values())


def test_a_keyword_and_a_digit_in_front_are_made_identifiers() -> None:
    names = allocate_action_names([("class", ""), ("1", "x"), ("", "")])
    assert names == {("class", ""): "class_", ("1", "x"): "_1X", ("", ""): "action"}


@given(IDS)
def test_allowed_ids_are_returned(value: str) -> None:
    assert check_id("action", value) == value


@pytest.mark.parametrize("value", ["", "1a", "_a", "a b", "a.b", "ä", "a" * 41, "a\n", "a#", "a*"])
def test_other_ids_are_refused_by_kind(value: str) -> None:
    with pytest.raises(ConfigurationError, match="no valid lane id"):
        check_id("lane", value)
