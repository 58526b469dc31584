"""Shapes: what a model's own validators say of a value, within bounds."""

from __future__ import annotations

from typing import Annotated

import orjson
import pytest
from pydantic import AfterValidator, BaseModel

from grundlag_bus.schema.codec import digest
from grundlag_bus.schema.shape import MismatchError, ModelShape, SchemaShape


def even(value: int) -> int:
    if value % 2:
        raise ValueError(f"must be even, unlike {value} {'.' * 100_000}")
    return value


Even = Annotated[int, AfterValidator(even)]


class Many(BaseModel):
    values: list[Even] = []
    by_name: dict[str, Even] = {}


def test_the_number_of_issues_and_what_they_say_is_bounded() -> None:
    shape = ModelShape(Many, "validation")
    with pytest.raises(MismatchError) as raised:
        shape.parse({"values": [1] * 5_000, "by_name": {}})
    issues = raised.value.issues
    assert [issue.path for issue in issues] == [("values", index) for index in range(32)]
    assert issues[0].message.startswith("Value error, must be even, unlike 1")
    assert len(orjson.dumps([issue.to_json() for issue in issues])) < 40_000


def test_a_long_key_is_cut_in_the_place_of_an_issue() -> None:
    with pytest.raises(MismatchError) as raised:
        ModelShape(Many, "validation").parse({"by_name": {"k" * 100_000: 1}})
    assert [issue.path for issue in raised.value.issues] == [("by_name", "k" * 120 + "...")]


def test_a_shape_knows_the_digest_of_what_it_published_whatever_becomes_of_that() -> None:
    for shape in (ModelShape(Many, "validation"), SchemaShape({"type": "object", "title": "Many"})):
        published = digest(shape.schema)
        assert shape.digest == published
        shape.schema.pop("title")
        assert shape.digest == published != digest(shape.schema)
