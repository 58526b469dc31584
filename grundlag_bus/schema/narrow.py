"""Find one smallest part of a large value that does not fit.

The validator makes every error there is before it gives the first, and of a union all errors of all alternatives:
seconds for a few megabytes. So a large value is not asked for its errors: this walks down value and schema by yes or
no, which stops at the first error, until the part is small or the fault is the part's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema_rs import Validator, ValidatorMap

    from grundlag_bus.errors import IssuePath

_MOST_STEPS = 1000  # a schema may refer to itself without going down in the value
_LONGEST_CHAIN = 16  # references to references
_NAMES: dict[type, tuple[str, ...]] = {
    dict: ("object",),
    list: ("array",),
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number", "integer"),
}


class Part(NamedTuple):
    """A part of a value that does not fit its part of the schema, and the validator of that."""

    value: Any
    path: IssuePath
    schema: Any
    validator: Validator


class _Step(NamedTuple):
    """From one part to one below it: none of `taken` when it is the same value under a schema within the schema."""

    value: Any
    taken: IssuePath
    pointer: str
    schema: Any


def narrow(value: Any, schema: Any, validators: ValidatorMap, *, is_small: Callable[[Any], bool]) -> Part:
    """Walk down from a value that does not fit."""
    part = Part(value, (), schema, validators["#"])
    pointer = "#"
    for _ in range(_MOST_STEPS):
        if is_small(part.value):
            break
        for step in _steps(part.value, part.schema, pointer, schema):
            validator = validators.get(step.pointer)
            if validator is not None and not validator.is_valid(step.value):
                part = Part(step.value, (*part.path, *step.taken), step.schema, validator)
                pointer = step.pointer
                break
        else:
            break
    return part


def _steps(value: Any, schema: Any, at: str, root: Any) -> Iterator[_Step]:
    """Name what a value has to fit below its schema."""
    if not isinstance(schema, dict):
        return
    target = schema.get("$ref")
    if target is not None:
        yield _Step(value, (), target, _resolved(root, target))
    for index, inner in enumerate(schema.get("allOf", ())):
        yield _Step(value, (), f"{at}/allOf/{index}", inner)
    if type(value) is dict:
        yield from _into_object(value, schema, at)
    elif type(value) is list:
        yield from _into_array(value, schema, at)
    for keyword in ("anyOf", "oneOf"):
        meant = [
            _Step(value, (), f"{at}/{keyword}/{index}", inner)
            for index, inner in enumerate(schema.get(keyword, ()))
            if _may_be_meant(value, inner, root)
        ]
        if len(meant) == 1:
            yield meant[0]


def _into_object(value: dict[str, Any], schema: dict[str, Any], at: str) -> Iterator[_Step]:
    properties = schema.get("properties", {})
    for name, inner in properties.items():
        if name in value:
            yield _Step(value[name], (name,), f"{at}/properties/{_escaped(name)}", inner)
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and "patternProperties" not in schema:
        for name, item in value.items():
            if name not in properties:
                yield _Step(item, (name,), f"{at}/additionalProperties", others)


def _into_array(value: list[Any], schema: dict[str, Any], at: str) -> Iterator[_Step]:
    first = schema.get("prefixItems", ())
    for index, (item, inner) in enumerate(zip(value, first, strict=False)):
        yield _Step(item, (index,), f"{at}/prefixItems/{index}", inner)
    rest = schema.get("items")
    if isinstance(rest, dict):
        for index in range(len(first), len(value)):
            yield _Step(value[index], (index,), f"{at}/items", rest)


def _may_be_meant(value: Any, schema: Any, root: Any) -> bool:
    """Tell whether an alternative of a union is of the value's type, and of its discriminator."""
    for _ in range(_LONGEST_CHAIN):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        schema = _resolved(root, schema["$ref"])
    if not isinstance(schema, dict):
        return True
    names = _NAMES.get(type(value), ("null",))
    types = schema.get("type", names)
    if not set(names).intersection([types] if isinstance(types, str) else types):
        return False
    properties = schema.get("properties", {}) if type(value) is dict else {}
    return all(
        value[name] == inner["const"]
        for name, inner in properties.items()
        if name in value and isinstance(inner, dict) and "const" in inner
    )


def _resolved(root: Any, target: str) -> Any:
    """Follow a reference within the document; True, which says nothing, for any other."""
    if not target.startswith("#"):
        return True
    for step in target.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, dict) or name not in root:
            return True
        root = root[name]
    return root


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
