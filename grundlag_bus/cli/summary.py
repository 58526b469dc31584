"""A JSON Schema in a few words, and the parts of it that matter to a person."""

from __future__ import annotations

from typing import Any

import orjson

_MOST_REFERENCES = 16


def summarise(schema: dict[str, Any]) -> str:
    """Name the fields with their types, as in ``title: string, limit?: integer``; a question mark is for optional."""
    plain = resolve(schema, schema)
    fields = plain.get("properties")
    if not fields:
        return "" if plain.get("type") == "object" and not plain.get("additionalProperties") else kind_of(plain, schema)
    required = plain.get("required", ())
    return ", ".join(
        f"{name}: {kind_of(field, schema)}"
        if name in required
        else f"{name}?: {kind_of(field, schema).removesuffix(' | null')}"
        for name, field in fields.items()
    )


def kind_of(schema: Any, root: dict[str, Any]) -> str:
    """Name the type of a value in a word or two."""
    plain = resolve(schema, root)
    choices = choices_of(plain, root)
    if choices:
        return " | ".join(map(in_json, choices))
    alternatives = plain.get("anyOf") or plain.get("oneOf")
    if alternatives:
        return " | ".join(dict.fromkeys(kind_of(one, root) for one in alternatives))
    kind = plain.get("type", "any")
    if isinstance(kind, list):
        return " | ".join(kind)
    if kind == "array":
        items = plain.get("items")
        return "array" if not items else f"array of {kind_of(items, root)}"
    return str(plain.get("format", kind)) if kind == "string" else str(kind)


def choices_of(schema: dict[str, Any], root: dict[str, Any]) -> list[Any]:
    """Return the values of which one is wanted, or [] when the schema lists none."""
    if "const" in schema:
        return [schema["const"]]
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    alternatives = [resolve(one, root) for one in schema.get("anyOf") or schema.get("oneOf") or ()]
    found = [choices_of(one, root) for one in alternatives]
    return [choice for choices in found for choice in choices] if all(found) else []


def resolve(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Follow references within the root, and ``allOf`` of one; what stands beside a reference counts first."""
    found: dict[str, Any] = schema if isinstance(schema, dict) else {}
    for _ in range(_MOST_REFERENCES):
        rest = dict(found)
        target = rest.pop("$ref", None)
        if isinstance(target, str):
            found = {**_pointed(target, root), **rest}
        elif isinstance(rest.get("allOf"), list) and len(rest["allOf"]) == 1:
            (only,) = rest.pop("allOf")
            found = {**(only if isinstance(only, dict) else {}), **rest}
        else:
            break
    return found


def in_json(value: Any) -> str:
    """Write plain data as JSON on one line."""
    return orjson.dumps(value).decode()


def _pointed(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    place: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        place = place.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else {}
