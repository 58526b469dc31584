from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from grundlag_bus.cli.summary import summarise


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    x: int


class Outer(BaseModel):
    title: str
    limit: int | None = None
    colour: Colour
    inner: Inner
    many: list[Inner]
    either: int | str
    always: Literal[1]
    anything: Any


class Node(BaseModel):
    children: list[Node]


def test_fields_are_named_with_their_types_and_optional_ones_are_marked() -> None:
    assert summarise(Outer.model_json_schema()) == (
        'title: string, limit?: integer, colour: "red" | "blue", inner: object, many: array of object, '
        "either: integer | string, always: 1, anything: any"
    )


def test_a_recursive_schema_ends() -> None:
    assert summarise(Node.model_json_schema()) == "children: array of object"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object"}, ""),
        ({}, "any"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "any"),
        ({"$ref": "#/$defs/missing"}, "any"),
        (TypeAdapter(dict[str, int]).json_schema(), "object"),
        (TypeAdapter(Annotated[Inner, Field(description="d")]).json_schema(), "x: integer"),
    ],
)
def test_any_schema_has_a_summary(schema: dict[str, Any], told: str) -> None:
    assert summarise(schema) == told
