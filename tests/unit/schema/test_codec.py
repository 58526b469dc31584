from __future__ import annotations

import dataclasses
import enum
import math
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import orjson
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, TypeAdapter

from grundlag_bus.errors import NotJsonError, PayloadTooLargeError
from grundlag_bus.schema.codec import MAX_DEPTH, canonical, dump, encoded_size, ensure_size, parse, plain

SIGNED_64 = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.none() | st.booleans() | SIGNED_64 | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)

INDIA = timezone(timedelta(hours=5, minutes=30))


def refusal(value: Any) -> tuple[tuple[str | int, ...], str]:
    with pytest.raises(NotJsonError) as caught:
        plain(value)
    return caught.value.issue.path, caught.value.issue.code


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# --- what passes ------------------------------------------------------------------------------------------------------


@given(JSON)
def test_json_data_is_copied_as_it_is(value: Any) -> None:
    copy = plain(value)
    assert repr(copy) == repr(value)
    assert parse(orjson.dumps(value)) == value


def test_the_copy_shares_no_container_with_the_value() -> None:
    value: dict[str, Any] = {"a": [1, {"b": []}], "long": list(range(100))}
    copy = plain(value)
    value["a"][1]["b"].append(1)
    value["long"].append(1)
    assert copy == {"a": [1, {"b": []}], "long": list(range(100))}


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    HELLO = "hello"


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not what it holds"


class Whole(int):
    def __int__(self) -> int:
        return -1


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Plain:
    when: datetime
    tags: tuple[str, ...] = ()


@pydantic.dataclasses.dataclass
class Checked:
    price: Decimal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.HELLO, "hello"),
        (Shouting("x"), "x"),
        (Whole(7), 7),
        ({Word.HELLO: 1, Shouting("ü"): 2}, {"hello": 1, "ü": 2}),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(a=1), {"a": 1}),
        (datetime(2026, 1, 31, 9, 30, tzinfo=UTC), "2026-01-31T09:30:00Z"),
        (datetime(2026, 1, 31, 2, 0, 0, 5, tzinfo=INDIA), "2026-01-30T20:30:00.000005Z"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(9, 30), "09:30:00"),
        (timedelta(days=1, hours=2), "P1DT2H"),
        (timedelta(seconds=-1), "-PT1S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Plain(datetime(2026, 1, 1, tzinfo=UTC), ("a",)), {"when": "2026-01-01T00:00:00Z", "tags": ["a"]}),
        (Checked(Decimal("2.50")), {"price": "2.50"}),
    ],
)
def test_values_with_one_meaning_in_json_are_written(value: Any, expected: Any) -> None:
    copies = (plain(value), plain([value])[0], plain({"key": value})["key"])
    assert [(copy, type(copy)) for copy in copies] == [(expected, type(expected))] * 3


def test_subclasses_come_out_as_the_types_themselves() -> None:
    copy = plain([Shouting("x"), Whole(7), Level.HIGH, Word.HELLO, OrderedDict(), Point(1, 2)])
    assert list(map(type, copy)) == [str, int, int, str, dict, list]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (math.nan, "not_finite"),
        (math.inf, "not_finite"),
        (-math.inf, "not_finite"),
        (Decimal("NaN"), "not_finite"),
        (2**63, "integer_too_large"),
        (-(2**63) - 1, "integer_too_large"),
        (Whole(2**64), "integer_too_large"),
        (datetime(2026, 1, 1), "naive_datetime"),  # noqa: DTZ001  what is refused
        (datetime.min.replace(tzinfo=INDIA), "not_json"),
        ("\ud800", "not_unicode"),
        ({1}, "not_json"),
        (frozenset(), "not_json"),
        (b"x", "not_json"),
        (object(), "not_json"),
        (dict, "not_json"),
        (Plain, "not_json"),
        (1j, "not_json"),
        (iter([]), "not_json"),
        ({1: 2}, "key_not_text"),
        ({None: 2}, "key_not_text"),
        ({"\udfff": 2}, "not_unicode"),
    ],
)
def test_what_is_no_json_data_is_refused_with_its_place(value: Any, code: str) -> None:
    assert refusal(value) == ((), code)
    assert refusal({"a": [0, {"b c": value}]}) == (("a", 1, "b c"), code)
    assert refusal((value,)) == ((0,), code)
    assert refusal([0] * 99 + [value]) == ((99,), code)


@pytest.mark.parametrize("element", [1, 1.5, "a", None, True])
@pytest.mark.parametrize("bad", [math.nan, 2**63, "\ud800", {1}])
def test_a_long_list_is_checked_to_its_end(element: Any, bad: Any) -> None:
    assert refusal([element] * 1000 + [bad])[0] == (1000,)
    assert refusal([bad] + [bad] * 1000)[0] == (0,)


def test_the_limits_of_integers_pass() -> None:
    assert plain([2**63 - 1, -(2**63)]) == [2**63 - 1, -(2**63)]
    assert plain([2**63 - 1] * 100) == [2**63 - 1] * 100


def test_128_levels_pass_and_129_are_refused_where_they_begin() -> None:
    assert plain(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert refusal(nested(MAX_DEPTH + 1)) == ((0,) * MAX_DEPTH, "too_deep")
    value: Any = {}
    for _ in range(MAX_DEPTH - 1):
        value = {"a": value}
    plain(value)
    assert refusal({"a": value}) == (("a",) * MAX_DEPTH, "too_deep")
    assert plain([nested(MAX_DEPTH - 1), 1])


def test_depth_counts_across_kinds_of_containers() -> None:
    value: Any = 1
    for index in range(MAX_DEPTH + 1):
        value = ({"a": value}, [value], (value,), OrderedDict(a=value))[index % 4]
    assert refusal(value)[1] == "too_deep"


def test_a_value_that_contains_itself_is_too_deep() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})
    assert refusal(circle)[1] == "too_deep"


def test_the_error_says_where_within_a_larger_value() -> None:
    with pytest.raises(NotJsonError, match=r"state\.a\.0: nan") as caught:
        plain({"a": [math.nan]}, at=("state",))
    assert caught.value.issue.path == ("state", "a", 0)


def test_messages_hold_no_whole_value() -> None:
    for value in ({("x" * 9000,): 1}, ["\ud800" + "x" * 9000], {"x" * 9000}):
        with pytest.raises(NotJsonError) as caught:
            plain(value)
        assert len(caught.value.issue.message) < 300


# --- models -----------------------------------------------------------------------------------------------------------


class Guest(BaseModel):
    at: datetime | None = None
    more: Any = None


class Party(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", validate_by_name=True)
    starts_at: datetime = Field(alias="startsAt")
    guests: list[Guest] = []
    days: set[datetime] = set()
    blob: bytes = b""
    by_day: dict[date, datetime] = {}


def test_a_model_is_written_by_alias_with_its_times_in_utc() -> None:
    moment = datetime(2026, 1, 1, 5, 30, tzinfo=INDIA)
    party = Party(
        starts_at=moment,
        guests=[Guest(at=moment, more={"x": moment})],
        days={moment},
        blob=b"\xff",
        by_day={date(2026, 1, 1): moment},
    )
    assert plain({"party": party})["party"] == {
        "startsAt": "2026-01-01T00:00:00Z",
        "guests": [{"at": "2026-01-01T00:00:00Z", "more": {"x": "2026-01-01T00:00:00Z"}}],
        "days": ["2026-01-01T00:00:00Z"],
        "blob": "_w==",
        "by_day": {"2026-01-01": "2026-01-01T00:00:00Z"},
    }


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  what is refused


@pytest.mark.parametrize(
    ("party", "path"),
    [
        (Party(starts_at=NAIVE), ("startsAt",)),
        (Party(starts_at=datetime.now(UTC), guests=[Guest(), Guest(at=NAIVE)]), ("guests", 1, "at")),
        (Party(starts_at=datetime.now(UTC), guests=[Guest(more={"x": [NAIVE]})]), ("guests", 0, "more", "x", 0)),
        (Party(starts_at=datetime.now(UTC), days={NAIVE}), ("days",)),
        (Party(starts_at=datetime.now(UTC), by_day={date(2026, 1, 2): NAIVE}), ("by_day", "2026-01-02")),
    ],
)
def test_a_naive_time_in_a_model_is_refused_with_its_place(party: Party, path: tuple[str | int, ...]) -> None:
    assert refusal([party]) == ((0, *path), "naive_datetime")
    with pytest.raises(NotJsonError) as caught:
        dump(TypeAdapter(Party), party)
    assert caught.value.issue.path == path


def test_nan_and_huge_integers_in_a_model_are_refused_with_their_place() -> None:
    assert refusal(Guest(more=math.nan)) == (("more",), "not_finite")
    assert refusal(Guest(more=[Decimal("NaN")])) == (("more", 0), "not_finite")
    assert refusal(Guest(more={1.5, math.inf})) == (("more",), "not_finite")
    assert refusal(Guest(more=[2**64])) == (("more", 0), "integer_too_large")


def test_a_model_that_pydantic_cannot_write_is_refused() -> None:
    class Raw(BaseModel):
        blob: bytes

    assert refusal({"raw": Raw(blob=b"\xff")}) == (("raw",), "not_json")
    assert refusal(Guest(more=object())) == ((), "not_json")
    assert refusal(Guest.model_construct(at="no time")) == ((), "not_json")  # type: ignore[arg-type]  # what is refused
    circle = Guest()
    circle.more = circle
    assert refusal(circle)[1] == "not_json"


def test_a_serializer_of_the_users_own_is_left_alone() -> None:
    class Local(BaseModel):
        at: Annotated[datetime, PlainSerializer(lambda at: f"{at:%d.%m.%Y}", return_type=str, when_used="json")]
        stamp: Annotated[datetime, PlainSerializer(lambda at: at.year, return_type=int, when_used="json")]
        none: Annotated[datetime, PlainSerializer(lambda _: None, when_used="json")]

    assert plain(Local(at=NAIVE, stamp=NAIVE, none=NAIVE)) == {"at": "01.01.2026", "stamp": 2026, "none": None}


def test_dump_leaves_a_value_of_another_type_to_the_schema() -> None:
    assert dump(TypeAdapter(Guest), {"at": 3}) == {"at": 3}


# --- text from strangers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "code"),
    [
        ('{"a": [1, 18446744073709551616]}', ("a", 1), "integer_too_large"),
        ('{"a": 9223372036854775808}', ("a",), "integer_too_large"),
        ("5" * 5000, (), "integer_too_large"),
        ('{"a": NaN}', ("a",), "not_finite"),
        ("[-Infinity]", (0,), "not_finite"),
        ("[1e999]", (0,), "not_finite"),
        ("[" * 129 + "]" * 129, (0,) * 128, "too_deep"),
        ("[" * 100_000, (), "too_deep"),
        ('{"a":' * 100_000, (), "too_deep"),
        ("", (), "not_json"),
        ("{", (), "not_json"),
        ("[1,]", (), "not_json"),
        ("{'a': 1}", (), "not_json"),
        ("1 2", (), "not_json"),
        (b'"\xff"', (), "not_json"),
        ('"\\ud800"', (), "not_json"),
        ('"\ud800"', (), "not_unicode"),
    ],
)
def test_bad_json_text_is_refused(text: str | bytes, path: tuple[str | int, ...], code: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        parse(text)
    assert (caught.value.issue.path, caught.value.issue.code) == (path, code)


def test_malformed_json_is_refused_by_line_and_column_without_an_echo() -> None:
    with pytest.raises(NotJsonError, match="line 2 column") as caught:
        parse('{"secret": "' + "x" * 9000 + '",\n oops}')
    assert len(str(caught.value)) < 200
    assert "secret" not in str(caught.value)


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        value = parse(text)
    except NotJsonError:
        return
    assert plain(value) == value


def test_absent_and_null_stay_distinct() -> None:
    assert parse('{"a": null}') == {"a": None}
    assert parse("{}") == {}


# --- size and canonical form ------------------------------------------------------------------------------------------


def test_size_is_counted_in_bytes_of_json() -> None:
    assert encoded_size({"ü": 1}) == len('{"ü":1}'.encode())


def test_the_limit_passes_and_one_byte_more_is_refused() -> None:
    ensure_size("x" * 8, limit=10)
    with pytest.raises(PayloadTooLargeError) as caught:
        ensure_size("x" * 9, limit=10)
    assert caught.value.details == {"limit": 10, "size": 11}


@given(st.dictionaries(st.text(), LEAVES | st.dictionaries(st.text(), LEAVES, max_size=3), max_size=5))
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    assert canonical(value) == canonical(dict(reversed(value.items())))
    assert orjson.loads(canonical(value)) == value
