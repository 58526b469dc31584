"""Reads what the envelopes of the wire are made of: their fields, and instants as RFC 3339 in UTC.

Every reader raises EnvelopeError with the reason; a field that is missing raises KeyError, for the reader of the whole.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.refusal import short

VERSION = 1

_LONGEST_ID = 200
_DEEPEST = 240
"""Levels of a whole envelope: orjson writes 254, and what is read may have to be written again, in a dead letter."""
_MOST = 1_000_000_000
"""Of what is counted on: one more must fit into JSON, and into a database."""
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def instant_to_datetime(instant: float) -> datetime:
    """Turn Unix seconds into an aware datetime in UTC.

    What is outside the years 1 to 9999 becomes their beginning or end, and what is no number the beginning: as a
    deadline, it has passed.
    """
    return datetime.fromtimestamp(max(_EARLIEST, min(instant, _LATEST)), UTC)  # in this order, NaN is the lesser


def instant_to_json(instant: float) -> str:
    """Write Unix seconds as RFC 3339 in UTC, to the microsecond."""
    return instant_to_datetime(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_from_json(text: Any) -> float:
    """Read RFC 3339 as Unix seconds. Raises EnvelopeError, also where the offset is missing."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise EnvelopeError(f"{short(repr(text))} is no RFC 3339 time") from error
    if moment.tzinfo is None:
        raise EnvelopeError(f"the time {short(text)!r} has no offset")
    return moment.timestamp()


def read(body: bytes) -> Any:
    """Read JSON that can be written again. Raises EnvelopeError."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise EnvelopeError(f"the body is no JSON: {error}") from error
    if body.count(b"[") + body.count(b"{") > _DEEPEST and _is_deep(data):
        raise EnvelopeError(f"the body nests deeper than {_DEEPEST} levels")
    return data


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def load(body: bytes) -> dict[str, Any]:
    """Read an envelope of our version. Raises EnvelopeError."""
    data = read(body)
    if type(data) is not dict:
        raise EnvelopeError("the body is no JSON object")
    version = data.get("v")
    if type(version) is not int or version != VERSION:
        raise EnvelopeError(f"the envelope has version {short(repr(version))}, and this program reads {VERSION}")
    return data


def text(data: dict[str, Any], name: str) -> str:
    value = data[name]
    if type(value) is not str:
        raise EnvelopeError(f"{name!r} is no text but of type {type(value).__name__}")
    return value


def call_id(data: dict[str, Any]) -> str:
    """Read the id of a call, which AMQP and a ledger's database can carry too."""
    value = text(data, "callId")
    if len(value.encode()) > _LONGEST_ID:
        raise EnvelopeError(f"'callId' has more than {_LONGEST_ID} bytes")
    if "\0" in value:
        raise EnvelopeError("'callId' has a NUL in it")
    return value


def optional_text(data: dict[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else text(data, name)


def optional_object(data: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = data.get(name)
    if value is not None and type(value) is not dict:
        raise EnvelopeError(f"{name!r} is no object")
    return value


def count(data: dict[str, Any], name: str) -> int:
    value = data[name]
    if type(value) is not int or not 1 <= value <= _MOST:
        raise EnvelopeError(f"{name!r} is no whole number from 1 to {_MOST}")
    return value


def instant(data: dict[str, Any], name: str) -> float:
    try:
        return instant_from_json(data[name])
    except EnvelopeError as error:
        raise EnvelopeError(f"{name!r}: {error.reason}") from error


def objects(value: Any) -> list[dict[str, Any]]:
    """Read a list of items; none where there is nothing."""
    if value is None:
        return []
    if type(value) is not list or not all(type(item) is dict for item in value):
        raise EnvelopeError("the items are no list of objects")
    return value
