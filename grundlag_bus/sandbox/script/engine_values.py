"""What comes out of the engine, as data, before the codec judges it.

The engine writes what has no counterpart outside (functions, coroutines, iterators) as text, without a word: a call
that nobody awaited would be the text of its result.
"""

from __future__ import annotations

import re
from typing import Any

import pydantic_monty as monty

from grundlag_bus.errors import Issue, NotJsonError
from grundlag_bus.schema.codec import MAX_DEPTH

_NO_DATA = re.compile(
    r"<(?:function|coroutine|module|bound method|lambda|gather)\b[^>]*>|<\w+(?:\.\w+)? object\b[^>]*>|"
    r"<(?:lambda>|gather\(\d+\)>)|dict_(?:items|keys|values)\(\[.*\]\)|range\(-?\d+, -?\d+(?:, -?\d+)?\)",
    re.DOTALL,
)
_STARTS = ("<", "dict_", "range(")


def as_data(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a value with dataclasses as dicts. Raises NotJsonError for what the engine made text of."""
    if isinstance(value, str):
        if value.startswith(_STARTS) and _NO_DATA.fullmatch(value):
            raise NotJsonError(
                Issue((), "not_json", f"{value[:80]} is no data: await a call, and make a list of what is iterated")
            )
        return value
    if not depth:
        return value  # the codec refuses it
    if isinstance(value, (list, tuple)):
        return [_below(number, item, depth) for number, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _below(key, item, depth) for key, item in value.items()}
    if isinstance(value, monty.MontyClassProxy):
        if value.is_dataclass:
            return as_data(value.attributes, depth)
        raise NotJsonError(Issue((), "not_json", f"an object of class {value.name} is no JSON data: make a dict of it"))
    if isinstance(value, (monty.MontyStdTypeProxy, monty.MontyClassTypeProxy)):
        raise NotJsonError(Issue((), "not_json", f"{value.name} is no data: it may lack its brackets"))
    return value


def _below(step: Any, value: Any, depth: int) -> Any:
    try:
        return as_data(value, depth - 1)
    except NotJsonError as error:
        issue = error.issue
        step = step if isinstance(step, int) else str(step)
        raise NotJsonError(Issue((step, *issue.path), issue.code, issue.message)) from None
