"""JSON Schema as Python annotations, as far as a type checker and a reader gain by it; the rest is `Any`."""

from __future__ import annotations

import keyword
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WRITTEN = {*_SCALARS.values(), "list", "dict", "Any", "Literal", "NotRequired"}
_DEEPEST = 12
"""Levels of a schema that are written out."""


class Types:
    """The annotations of one schema. declarations: the TypedDicts that they name, in an order that can be read.

    name: of the outermost; root: the schema that `$ref` refers to; taken: names that mean something else, to which its
    own are added; of_module: for a module that puts annotations off, where names need no quotes, any key can be
    declared, and what is declared is described.
    """

    def __init__(
        self, name: str, root: Mapping[str, Any], *, taken: set[str] | None = None, of_module: bool = False
    ) -> None:
        self.declarations: list[str] = []
        self._name = name
        self._root = root
        self._of_module = of_module
        self._named: dict[str, str] = {}
        self._taken = set() if taken is None else taken
        self._open: set[str] = set()

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

    def _annotation(self, schema: Any, depth: int, name: str, *, named: bool) -> str:
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if named and isinstance(reference, str) and reference in self._named:
            return self._named[reference]
        if isinstance(reference, str):
            return self._referred(reference, depth, name, named=named)
        return self._written(schema, depth, name, None, named=named)

    def _referred(self, reference: str, depth: int, name: str, *, named: bool) -> str:
        """Annotate what is referred to; what refers to itself and has no name is `Any` there."""
        if reference in self._open:
            return "Any"
        self._open.add(reference)
        annotation = self._written(self.resolved({"$ref": reference}), depth, name, reference, named=named)
        self._open.remove(reference)
        return annotation

    def _written(self, schema: Any, depth: int, name: str, reference: str | None, *, named: bool) -> str:  # noqa: PLR0911  one for each kind
        if depth > _DEEPEST or not isinstance(schema, dict) or not schema:
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

    def _object(self, schema: Mapping[str, Any], depth: int, name: str, reference: str | None, *, named: bool) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = schema.get("additionalProperties")
            inner = (
                self._annotation(values, depth + 1, f"{name}Value", named=named) if isinstance(values, dict) else "Any"
            )
            return f"dict[str, {inner}]"
        if not named or not (self._of_module or all(map(_is_name, properties))):
            return "dict[str, Any]"
        name = self._free(name if reference is None else f"{self._name}{_last_word(reference)}")
        if reference is not None:
            self._named[reference] = name if self._of_module else f"'{name}'"  # quoted, for what refers to itself
        required = set(schema.get("required", ()))
        types = {
            key: self._annotation(of, depth + 1, f"{name}{_capitalised(key)}", named=True)
            for key, of in properties.items()
        }
        self.declarations.append(self._declaration(name, schema, types, required))
        if reference is not None:
            self._named[reference] = name
        return name

    def _declaration(self, name: str, schema: Mapping[str, Any], types: Mapping[str, str], required: set[str]) -> str:
        if not all(map(_is_name, types)):
            quoted = {key: repr(type_) for key, type_ in types.items()}  # evaluated where it stands
            items = (
                f"        {key!r}: {type_ if key in required else f'NotRequired[{type_}]'},"
                for key, type_ in quoted.items()
            )
            return "\n".join([f"{name} = TypedDict(", f"    {name!r},", "    {", *items, "    },", ")"])
        fields = [f"    {key}: {type_ if key in required else f'NotRequired[{type_}]'}" for key, type_ in types.items()]
        text = _described(schema, self.resolved) if self._of_module else ""
        return "\n".join([f"class {name}(TypedDict):", *([f"{text}\n"] if text else ()), *fields])

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


def _is_name(key: str) -> bool:
    """Whether the key can be written as the name of a field, be read back as the same, and hide no type."""
    fits = key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")
    return fits and key not in _WRITTEN and unicodedata.normalize("NFKC", key) == key


def _capitalised(key: str) -> str:
    """Make a part of a name of a key, which may be any text."""
    word = "".join(c for c in key if c == "_" or f"_{c}".isidentifier())
    return word[:1].upper() + word[1:]


def _described(schema: Mapping[str, Any], resolved: Callable[[Any], Mapping[str, Any]]) -> str:
    """Write what the schema says of an object and its properties, as a class's docstring; "" where it says nothing."""
    lines = [one_line(schema.get("description"))]
    for key, of in schema.get("properties", {}).items():
        told = of.get("description") if isinstance(of, dict) else None
        if told := one_line(told or resolved(of).get("description")):
            lines.append(f"{key}: {told}")
    return docstring([line for line in lines if line], indent="    ")


def one_line(text: Any) -> str:
    return "" if text is None else " ".join(str(text).split())


def docstring(lines: Sequence[str], *, indent: str) -> str:
    """Write lines as a docstring, the first one apart; "" for none."""
    if not lines:
        return ""
    first, *rest = map(_escaped, lines)
    if not rest:
        return f'{indent}"""{first}"""'
    return "\n".join([f'{indent}"""{first}', "", *(f"{indent}{line}" for line in rest), f'{indent}"""'])


def _escaped(line: str) -> str:
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line.replace("\\", "\\\\"))
    return line.replace('"', '\\"') if '"""' in line or line.endswith('"') else line


def _last_word(reference: str) -> str:
    return _capitalised(reference.rsplit("/", 1)[-1])
