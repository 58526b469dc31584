"""What pydantic writes for a value, under our rules for instants and numbers.

Pydantic writes a naive datetime without a word, an aware one with the offset it has, NaN in a field of type Any as
null, and as a decimal as text. Here an instant is written in UTC and the others are refused, by comparing the JSON dump
of a value with its Python dump. What a serializer of the user's own wrote is left alone.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_jsonable_python

from grundlag_bus.schema.refusal import Refusal, instant, not_finite, short

if TYPE_CHECKING:
    from pydantic_core import SchemaSerializer


def dumped(serializer: SchemaSerializer, value: Any, *, warnings: Literal["none", "error"] = "error") -> Any:
    """Write a value as pydantic does, by alias; it may still hold NaN or huge integers. Raises Refusal.

    With `warnings="none"` a value that is not of the serializer's type is written as it is: for what a schema judges
    afterwards.
    """
    heed: bool | Literal["error"] = "error" if warnings == "error" else False
    try:
        told = serializer.to_python(value, mode="json", by_alias=True, warnings=heed)
        source = serializer.to_python(value, mode="python", by_alias=True, warnings=heed)
    except (ValueError, RecursionError) as error:  # pydantic's own serialization errors are ValueErrors
        name = type(value).__qualname__
        raise Refusal("not_json", f"this {name} cannot be written as JSON: {short(str(error))}") from None
    return _by_our_rules(told, source)


def _by_our_rules(told: Any, source: Any) -> Any:
    """Correct a JSON dump in place, leaf by leaf, by the Python dump of the same value."""
    kind = type(source)
    if kind is str or kind is int or source is None:
        return told
    if isinstance(source, dict) and isinstance(told, dict):
        steps, items = list(told), list(source.values())
    elif isinstance(source, list | tuple) and isinstance(told, list):
        steps, items = list(range(len(told))), list(source)
    elif isinstance(source, set | frozenset) and isinstance(told, list):
        return _set(told, source)
    else:
        return _leaf(told, source)
    if len(steps) == len(items):
        for step, item in zip(steps, items, strict=True):
            try:
                told[step] = _by_our_rules(told[step], item)
            except Refusal as refusal:
                refusal.steps.append(step)
                raise
    return told


def _set(told: list[Any], source: set[Any] | frozenset[Any]) -> list[Any]:
    """Correct a set, whose Python dump is a new one in an order of its own."""
    for item in source:
        if _is_no_number(item):
            raise not_finite(item)
    return [instant(item) for item in source] if all(isinstance(item, datetime) for item in source) else told


def _leaf(told: Any, source: Any) -> Any:
    if isinstance(source, datetime) and told == to_jsonable_python(source):
        return instant(source)
    if _is_no_number(source) and (told is None or told == str(source)):
        raise not_finite(source)
    return told


def _is_no_number(value: Any) -> bool:
    return isinstance(value, float | Decimal) and not isfinite(value)
