"""JSON Schema as Python annotations, as far as a type checker and a reader gain by it; the rest is `Any`."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_DEEPEST = 12
"""Levels of a schema that are written out."""


class Types:
    """The annotations of one schema. declarations: the TypedDicts that they name, in an order that can be read.

    name: of the outermost; root: the schema that `$ref` refers to.
    """

    def __init__(self, name: str, root: Mapping[str, Any]) -> None:
        self.declarations: list[str] = []
        self._name = name
        self._root = root
        self._named: dict[str, str] = {}
        self._taken: set[str] = set()

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """Follow references, each once."""
        seen: set[str] = set()
        while isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str) and reference not in seen:
            seen.add(reference)
            schema = self._target(reference)
        return schema if isinstance(schema, dict) else {}

    def plain(self, schema: Any, depth: int = 0) -> str:
        """Annotate with objects as plain dicts: what a script makes by hand."""
        return self._annotation(schema, depth, self._name, named=False)

    def annotation(self, schema: Any) -> str:
        """Annotate with a TypedDict for each object that says what it holds."""
        return self._annotation(schema, 0, self._name, named=True)

    def _annotation(self, schema: Any, depth: int, name: str, *, named: bool) -> str:  # noqa: PLR0911  one for each kind
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if named and isinstance(reference, str) and reference in self._named:
            return self._named[reference]
        schema = self.resolved(schema)
        if depth > _DEEPEST or not schema:
            return "Any"
        if (literals := _literals(schema)) is not None:
            return literals
        if (several := _alternatives(schema)) is not None:
            return self._union(several, depth, name, named=named)
        types = schema.get("type")
        if types in _SCALARS:
            return _SCALARS[str(types)]
        if types == "array":
            return f"list[{self._annotation(schema.get('items', {}), depth + 1, f'{name}Item', named=named)}]"
        if types == "object" or "properties" in schema:
            return self._object(schema, depth, name, reference, named=named)
        return "Any"

    def _union(self, schemas: list[Any], depth: int, name: str, *, named: bool) -> str:
        found = dict.fromkeys(
            self._annotation(one, depth + 1, f"{name}{number or ''}", named=named) for number, one in enumerate(schemas)
        )
        return "Any" if "Any" in found else " | ".join(found)

    def _object(self, schema: Mapping[str, Any], depth: int, name: str, reference: Any, *, named: bool) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = schema.get("additionalProperties")
            inner = (
                self._annotation(values, depth + 1, f"{name}Value", named=named) if isinstance(values, dict) else "Any"
            )
            return f"dict[str, {inner}]"
        if not named or not all(key.isidentifier() and not keyword.iskeyword(key) for key in properties):
            return "dict[str, Any]"
        name = self._free(name if not isinstance(reference, str) else f"{self._name}{_last_word(reference)}")
        if isinstance(reference, str):
            self._named[reference] = f"'{name}'"  # quoted, for what refers to itself
        required = set(schema.get("required", ()))
        fields = []
        for key, of in properties.items():
            type_ = self._annotation(of, depth + 1, f"{name}{key[0].upper()}{key[1:]}", named=True)
            fields.append(f"    {key}: {type_ if key in required else f'NotRequired[{type_}]'}")
        self.declarations.append("\n".join([f"class {name}(TypedDict):", *fields]))
        if isinstance(reference, str):
            self._named[reference] = name
        return name

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self._taken:
            number += 1
            free = f"{name}{number}"
        self._taken.add(free)
        return free

    def _target(self, reference: str) -> Any:
        at: Any = self._root
        if not reference.startswith("#"):
            return {}
        for part in reference.lstrip("#").split("/"):
            if part:
                at = at.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(at, dict) else {}
        return at


def _literals(schema: Mapping[str, Any]) -> str | None:
    """Write an enum or a const of what can be written as a literal."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(type(value) in (str, int, bool) for value in values):
        return f"Literal[{', '.join(map(repr, values))}]"
    return None


def _alternatives(schema: Mapping[str, Any]) -> list[Any] | None:
    """List the schemas of which a value fits one."""
    for kind in ("anyOf", "oneOf"):
        if isinstance(schema.get(kind), list):
            found: list[Any] = schema[kind]
            return found
    every, types = schema.get("allOf"), schema.get("type")
    if isinstance(every, list) and len(every) == 1:
        return every
    return [{**schema, "type": one} for one in types] if isinstance(types, list) else None


def _last_word(reference: str) -> str:
    word = "".join(c for c in reference.rsplit("/", 1)[-1] if c.isalnum() or c == "_")
    return word[:1].upper() + word[1:]
