"""Annotations of a module: any schema becomes text that Python reads, and means what the schema says."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from grundlag_bus.schema.annotations import Types, docstring


def objects(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def declared(schema: dict[str, Any], taken: set[str] | None = None) -> tuple[str, str]:
    types = Types("Act", schema, taken=taken, of_module=True)
    annotation = types.annotation(schema)
    text = "\n\n".join(types.declarations)
    ast.parse(text)
    return annotation, text


def test_what_refers_to_itself_is_named_without_quotes() -> None:
    tree = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": objects(inner={"type": "array", "items": {"$ref": "#/$defs/Tree"}})},
    }
    assert declared(tree) == ("ActTree", "class ActTree(TypedDict):\n    inner: list[ActTree]")


def test_what_refers_to_itself_and_has_no_name_ends_at_once() -> None:
    any_json = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Json"}}, {"type": "integer"}]}
    assert declared({"$ref": "#/$defs/Json", "$defs": {"Json": any_json}})[0] == "list[Any] | int"


@pytest.mark.parametrize("key", ["from", "no identifier", "", "1st", "__mangled", "ﬁ", "a'b\"\n"])
def test_a_key_that_is_no_name_is_declared_all_the_same(key: str) -> None:
    schema = objects(**{key: {"type": ["string", "null"]}})
    annotation, text = declared({**schema, "properties": {**schema["properties"], "more": {"type": "integer"}}})
    assert annotation == "Act"
    made: Any = {}
    exec(f"from typing import NotRequired, TypedDict\n{text}", made)  # noqa: S102  its own output
    assert made["Act"].__required_keys__ == {key}
    assert made["Act"].__optional_keys__ == {"more"}


def test_a_name_that_is_taken_is_left_alone() -> None:
    taken = {"Act"}
    assert declared(objects(a={"type": "string"}), taken)[0] == "Act2"
    assert taken == {"Act", "Act2"}


def test_what_the_schema_says_is_the_docstring() -> None:
    schema = {**objects(a={"type": "string", "description": "The  first."}), "description": "Acts."}
    assert '"""Acts.\n\n    a: The first.\n    """' in declared(schema)[1]


@pytest.mark.parametrize("text", ['a """ b', 'ends with "', "back\\slash\\", "nul\0", "\\N{x}"])
def test_any_text_can_be_a_docstring(text: str) -> None:
    (node,) = ast.parse(docstring([text], indent="")).body
    assert isinstance(node, ast.Expr)
    assert ast.literal_eval(node.value) == text
