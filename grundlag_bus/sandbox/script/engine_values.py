"""What comes out of the engine, as data, before the codec judges it.

The engine writes what has no counterpart outside (functions, coroutines, iterators) as text, without a word: a call
that nobody awaited would be the text of its result.
"""

from __future__ import annotations

import re
from typing import Any

import pydantic_monty as monty

from grundlag_bus.errors import Issue, NotJsonError, PayloadTooLargeError
from grundlag_bus.schema.codec import MAX_BYTES, MAX_DEPTH

_NO_DATA = re.compile(
    r"<(?:function|coroutine|module|bound method|lambda|gather)\b[^>]*>|<\w+(?:\.\w+)? object\b[^>]*>|"
    r"<(?:lambda>|gather\(\d+\)>)|dict_(?:items|keys|values)\(\[.*\]\)|range\(-?\d+, -?\d+(?:, -?\d+)?\)",
    re.DOTALL,
)
_CONTAINERS = (list, tuple, dict, monty.MontyClassProxy, monty.MontyStdTypeProxy, monty.MontyClassTypeProxy)
_LEAVES = frozenset({int, float, bool, type(None)})
_STARTS = ("<", "dict_", "range(")


def as_data(value: Any) -> Any:
    """Return a value with dataclasses as dicts. Raises NotJsonError for what the engine made text of.

    Also for what cannot be written in as many bytes as may cross: a value may hold itself a million times over and take
    no memory before it is copied.
    """
    return _Reading().read(value, MAX_DEPTH)


class _Reading:
    """Reads one value, and what is in several places of it once.

    room: bytes that it may still take as JSON, counted low; known: of what was read, by its id, itself (so that nothing
    else can come to have the id), its copy and its size.
    """

    def __init__(self) -> None:
        self._room = MAX_BYTES
        self._known: dict[int, tuple[Any, Any, int]] = {}

    def read(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, _CONTAINERS):
            self._take(1)
            return value
        if id(value) in self._known:
            _, copy, size = self._known[id(value)]
            self._take(size)
            return copy
        before = self._room
        self._take(1)
        copy = self._container(value, depth) if depth else value  # the codec refuses what is too deep
        self._known[id(value)] = value, copy, before - self._room
        return copy

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            return {key: self._entry(key, item, depth) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if _LEAVES.issuperset(map(type, value)):
                self._take(2 * len(value))
                return list(value)
            return [self._below(number, item, depth) for number, item in enumerate(value)]
        if isinstance(value, monty.MontyClassProxy):
            if value.is_dataclass:
                return self.read(value.attributes, depth)
            raise _no_data(f"an object of class {value.name} is no JSON data: make a dict of it")
        raise _no_data(f"{value.name} is no data: it may lack its brackets")

    def _text(self, value: str) -> str:
        self._take(len(value) + 2)
        if value.startswith(_STARTS) and _NO_DATA.fullmatch(value):
            raise _no_data(f"{value[:80]} is no data: await a call, and make a list of what is iterated")
        return value

    def _entry(self, key: Any, value: Any, depth: int) -> Any:
        self._take(len(key) + 3 if isinstance(key, str) else 1)
        return self._below(key, value, depth)

    def _below(self, step: Any, value: Any, depth: int) -> Any:
        try:
            return self.read(value, depth - 1)
        except NotJsonError as error:
            issue = error.issue
            if issue.code == PayloadTooLargeError.code:
                raise  # of the whole
            step = step if isinstance(step, int) else str(step)
            raise NotJsonError(Issue((step, *issue.path), issue.code, issue.message)) from None

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            told = f"it takes more than {MAX_BYTES} bytes as JSON: give less"
            raise NotJsonError(Issue((), PayloadTooLargeError.code, told))


def _no_data(message: str) -> NotJsonError:
    return NotJsonError(Issue((), "not_json", message))
