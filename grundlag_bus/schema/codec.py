"""The one JSON codec: what may cross the seam, and what is refused, with its place.

`plain` makes a copy that is JSON data and nothing else; everything behind the seam (validators, envelopes, sealing)
sees only such copies. It runs several times per call, so leaves are checked in the loop that copies them, and a path
is put together only when something is refused: each level adds its own step on the way out.
"""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from pydantic import BaseModel
from pydantic_core import from_json, to_jsonable_python

from grundlag_bus.errors import Issue, NotJsonError, PayloadTooLargeError
from grundlag_bus.schema.dumped import dumped
from grundlag_bus.schema.refusal import (
    LONE_SURROGATE,
    Refusal,
    ensure_unicode,
    instant,
    integer_too_large,
    not_finite,
    not_json,
    short,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter

    from grundlag_bus.errors import IssuePath

MAX_DEPTH = 128
MAX_BYTES = 4 * 1024 * 1024

_LOWEST = -(2**63)
_HIGHEST = 2**63 - 1
_LONG_LIST = 32  # from here on, one look at the types of all elements costs less than it saves


def plain(value: Any, *, at: IssuePath = ()) -> Any:
    """Copy a value into plain JSON data: dict, list, str, int, float, bool and None, of exactly these types.

    Also taken: aware datetimes (written in UTC), dates, times, timedeltas, UUIDs, decimals (as text), enums (their
    value), tuples, pydantic models and dataclasses. Anything else raises NotJsonError, whose issue has the place
    below `at` and one of the codes `not_finite`, `integer_too_large`, `naive_datetime`, `not_unicode`, `key_not_text`,
    `too_deep`, `not_json`.
    """
    try:
        return _copy(value, MAX_DEPTH)
    except Refusal as refusal:
        raise refusal.as_error(at) from None


def dump(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Write a value of the adapter's type as plain data, under the rules of `plain`. Raises NotJsonError.

    A value of another type is written as it is: the schema judges it.
    """
    try:
        return _copy(dumped(adapter.serializer, value, warnings="none"), MAX_DEPTH)
    except Refusal as refusal:
        raise refusal.as_error() from None


def parse(text: str | bytes, *, around: int = 0) -> Any:
    """Read JSON from strangers as plain data. Raises NotJsonError; of equal keys in one object the last counts.

    around: how many levels of it enclose the data and are not its own. Not read by orjson, which turns an integer
    beyond 64 bits into a float without a word.
    """
    try:
        value = from_json(text.encode() if isinstance(text, str) else text)
    except UnicodeEncodeError:
        raise NotJsonError(Issue((), "not_unicode", LONE_SURROGATE)) from None
    except ValueError as error:
        told = str(error)  # a few words with line and column, without the input
        if told.startswith("recursion limit"):
            code = "too_deep"
        elif told.startswith("number out of range"):
            code = "integer_too_large"
        else:
            code = "not_json"
        raise NotJsonError(Issue((), code, f"the text is no JSON that can be read: {told}")) from None
    try:
        return _copy(value, MAX_DEPTH + around)
    except Refusal as refusal:
        raise refusal.as_error() from None


def encoded_size(value: Any) -> int:
    """Count the bytes of plain data as JSON."""
    return len(orjson.dumps(value))


def ensure_size(value: Any, *, limit: int = MAX_BYTES) -> None:
    """Raise PayloadTooLargeError when plain data takes more than `limit` bytes as JSON."""
    size = encoded_size(value)
    if size > limit:
        raise PayloadTooLargeError(
            f"The data takes {size} bytes as JSON and the limit is {limit}: send less, or a reference to it.",
            details={"limit": limit, "size": size},
        )


def canonical(value: Any) -> bytes:
    """Encode plain data as the same bytes whatever the order of its keys."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: Any) -> str:
    """Hash plain data, whatever the order of its keys."""
    return hashlib.sha256(canonical(value)).hexdigest()


# --- copying ----------------------------------------------------------------------------------------------------------


def _copy(value: Any, room: int) -> Any:  # noqa: PLR0911  one answer per kind of value
    """Copy a value that may nest `room` levels deep."""
    kind = type(value)
    if kind is dict:
        return _copy_dict(value, room)
    if kind is list:
        return _copy_list(value, room)
    if kind is str:
        if not value.isascii():
            ensure_unicode(value)
        return value
    if kind is int:
        if not _LOWEST <= value <= _HIGHEST:
            raise integer_too_large()
        return value
    if kind is float:
        if not isfinite(value):
            raise not_finite(value)
        return value
    if kind is bool or value is None:
        return value
    return _copy_other(value, room)


def _copy_dict(value: dict[Any, Any], room: int) -> dict[str, Any]:  # noqa: C901, PLR0912  the hot path: leaves are checked here
    if not room:
        raise _too_deep()
    for key in value:
        if type(key) is not str or not key.isascii():
            value = _with_text_keys(value)
            break
    copy: dict[str, Any] = {}
    try:
        for key, item in value.items():
            kind = type(item)
            if kind is str:
                if not item.isascii():
                    ensure_unicode(item)
                copy[key] = item
            elif kind is int:
                if not _LOWEST <= item <= _HIGHEST:
                    raise integer_too_large()
                copy[key] = item
            elif kind is bool or item is None:
                copy[key] = item
            elif kind is dict:
                copy[key] = _copy_dict(item, room - 1)
            elif kind is list:
                copy[key] = _copy_list(item, room - 1)
            else:
                copy[key] = _copy(item, room - 1)
    except Refusal as refusal:
        refusal.steps.append(key)
        raise
    return copy


def _copy_list(values: list[Any] | tuple[Any, ...], room: int) -> list[Any]:  # noqa: C901  the hot path, as above
    if not room:
        raise _too_deep()
    if len(values) > _LONG_LIST and _uniform(values):
        return list(values)
    copy: list[Any] = []
    add = copy.append
    try:
        for item in values:
            kind = type(item)
            if kind is str:
                if not item.isascii():
                    ensure_unicode(item)
                add(item)
            elif kind is int:
                if not _LOWEST <= item <= _HIGHEST:
                    raise integer_too_large()
                add(item)
            elif kind is bool or item is None:
                add(item)
            elif kind is dict:
                add(_copy_dict(item, room - 1))
            elif kind is list:
                add(_copy_list(item, room - 1))
            else:
                add(_copy(item, room - 1))
    except Refusal as refusal:
        refusal.steps.append(len(copy))
        raise
    return copy


def _uniform(values: list[Any] | tuple[Any, ...]) -> bool:
    """Tell whether all elements are leaves of one type and fit: where not, the slow loop finds the place."""
    kinds = set(map(type, values))
    fits = _FITS.get(kinds.pop()) if len(kinds) == 1 else None
    return fits is not None and fits(values)


_FITS: dict[type, Callable[[Any], bool]] = {
    str: lambda values: all(map(str.isascii, values)),
    int: lambda values: min(values) >= _LOWEST and max(values) <= _HIGHEST,
    float: lambda values: all(map(isfinite, values)),
    bool: lambda _: True,
    NoneType: lambda _: True,
}


def _copy_other(value: Any, room: int) -> Any:  # noqa: PLR0911  one answer per kind of value
    """Copy a value whose exact type is none of JSON's."""
    if isinstance(value, Enum):  # before int and str, which enums may be as well
        return _copy(value.value, room)
    for base, bare in _BARE:
        if isinstance(value, base):
            return _copy(bare(value), room)
    if isinstance(value, dict):
        return _copy_dict(value, room)
    if isinstance(value, list | tuple):
        return _copy_list(value, room)
    if isinstance(value, BaseModel):
        return _copy(dumped(value.__pydantic_serializer__, value), room)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        serializer = getattr(value, "__pydantic_serializer__", None)
        if serializer is not None:
            return _copy(dumped(serializer, value), room)
        return _copy_dict({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, room)
    return _text_of(value)


# How an instance of a subclass becomes one of the type itself, whatever the subclass overrides.
_BARE: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)


def _text_of(value: Any) -> str:
    """Write what has one text that everybody reads the same."""
    if isinstance(value, datetime):  # before date, which a datetime is as well
        return instant(value)
    if isinstance(value, date | UUID):
        return str(value)
    if isinstance(value, time | timedelta):
        return str(to_jsonable_python(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise not_finite(value)
        return str(value)
    raise not_json(value)


def _with_text_keys(value: dict[Any, Any]) -> dict[str, Any]:
    return {_text_key(key): item for key, item in value.items()}


def _text_key(key: Any) -> str:
    if isinstance(key, Enum):
        key = key.value
    if not isinstance(key, str):
        name = type(key).__name__
        raise Refusal("key_not_text", f"the key {short(repr(key))} is of type {name}: only text can be a key")
    text = str.__str__(key)
    ensure_unicode(text)
    return text


def _too_deep() -> Refusal:
    return Refusal("too_deep", f"the data nests deeper than {MAX_DEPTH} levels here, or contains itself")
