"""What pydantic writes for a value, with the instants made ours.

Pydantic writes a naive datetime without a word, and an aware one with the offset it has. Here the first is refused and
the second is written in UTC, by comparing the JSON dump of a value with its Python dump.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_jsonable_python

from grundlag_bus.schema.refusal import Refusal, instant, short

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
    return _with_our_instants(told, source)


def _with_our_instants(told: Any, source: Any) -> Any:
    """Write anew, in place, each instant of a JSON dump, found by the Python dump of the same value."""
    kind = type(source)
    if kind is str or kind is int or source is None:
        return told
    if isinstance(source, datetime):
        return instant(source) if told == to_jsonable_python(source) else told  # else a serializer of the user's
    if isinstance(source, set | frozenset):  # the Python dump is a new set, in an order of its own
        return [instant(item) for item in source] if all(isinstance(item, datetime) for item in source) else told
    if isinstance(source, dict) and isinstance(told, dict):
        steps, items = list(told), list(source.values())
    elif isinstance(source, list | tuple) and isinstance(told, list):
        steps, items = list(range(len(told))), list(source)
    else:
        return told
    if len(steps) == len(items):  # else a serializer of the user's again
        for step, item in zip(steps, items, strict=True):
            try:
                told[step] = _with_our_instants(told[step], item)
            except Refusal as refusal:
                refusal.steps.append(step)
                raise
    return told
