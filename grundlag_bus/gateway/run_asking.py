"""From an HTTP request about runs to what is asked: bodies, queries and ids, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ActionInputValidationError, EnvelopeError, Issue, NotJsonError, RunUnknownError
from grundlag_bus.gateway.access import is_user_id
from grundlag_bus.gateway.asking import LONGEST_TIMEOUT
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.fields import instant_from_json
from grundlag_bus.schema.run import STATUSES, Status
from grundlag_bus.schema.run_failure import RUNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.datastructures import Headers, QueryParams

MOST_LISTED = 100
LONGEST_WAIT = 30.0
LONGEST_ID = 200
_AROUND = 1
"""Levels of a request that enclose data: {input: ...}."""
_KINDS = {
    "source": frozenset(("source", "inputs", "answerer", "timeout")),
    "prompt": frozenset(("prompt", "instructions", "answerer")),
    "function": frozenset(("function", "input", "answerer", "timeout")),
}
"""What a request has, by the part that says which kind of run it is."""
_DIGITS = 15
"""Of a position in a journal at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """A run that somebody asks for: what has to do with another kind is empty.

    kind: `function`, `source` or `prompt`; text: what stands there.
    """

    kind: str
    text: str
    input: Any
    inputs: dict[str, Any]
    instructions: str | None
    answerer: str | None
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedList:
    """Which runs, or questions, are to be listed."""

    status: Status | None
    before: float | None
    run_id: str | None
    limit: int


def read_run(body: bytes) -> AskedRun:
    """Read what is to be started. Raises ActionInputValidationError."""
    data = _object(body)
    kind = next((kind for kind in _KINDS if kind in data), "function")
    _ensure_parts(data, _KINDS[kind])
    answerer = _text(data, "answerer", optional=True)
    if answerer is not None and not is_user_id(answerer):
        raise malformed(("answerer",), "is no user id of 1 to 256 printable characters")
    inputs = data.get("inputs", {})
    if not isinstance(inputs, dict):
        raise malformed(("inputs",), "is no object")
    if kind == "function" and "input" not in data:
        raise malformed(("input",), "is missing")
    return AskedRun(
        kind=kind,
        text=_text(data, kind),
        input=data.get("input"),
        inputs=inputs,
        instructions=_text(data, "instructions", optional=True),
        answerer=answerer,
        timeout=_seconds(data),
    )


def read_part(body: bytes, name: str) -> Any:
    """Read a body that has one part and must have it. Raises ActionInputValidationError."""
    data = _object(body)
    _ensure_parts(data, (name,))
    if name not in data:
        raise malformed((name,), "is missing")
    return data[name]


def read_optional_text(body: bytes, name: str) -> str | None:
    """Read a body that may be empty, or have one part, a text. Raises ActionInputValidationError."""
    data = _object(body) if body else {}
    _ensure_parts(data, (name,))
    told: str | None = _text(data, name, optional=True)
    return told


def read_nothing(body: bytes) -> None:
    """Read a body that is empty, or an object without anything. Raises ActionInputValidationError."""
    _ensure_parts(_object(body) if body else {}, ())


def read_list(query: QueryParams) -> AskedList:
    """Read which are to be listed. Raises ActionInputValidationError."""
    status, before, limit = query.get("status"), query.get("before"), query.get("limit", str(MOST_LISTED))
    if status is not None and status not in STATUSES:
        raise malformed(("status",), f"is none of {', '.join(STATUSES)}")
    if not _is_count(limit) or not 1 <= int(limit) <= MOST_LISTED:
        raise malformed(("limit",), f"is no whole number from 1 to {MOST_LISTED}")
    try:
        instant = None if before is None else instant_from_json(before)
    except EnvelopeError as error:
        raise malformed(("before",), error.reason) from error
    return AskedList(
        status=status,
        # What is told is rounded to a microsecond: less than that before is the same instant.
        before=None if instant is None else instant - 1e-6,
        run_id=query.get("runId"),
        limit=int(limit),
    )


def read_wait(query: QueryParams) -> tuple[float, bool]:
    """Read for how long to wait, and whether for people too. Raises ActionInputValidationError."""
    told, for_people = query.get("wait", "0"), query.get("forPeople", "false")
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not told.isascii() or not 0 <= seconds <= LONGEST_WAIT:
        raise malformed(("wait",), f"is no number of seconds from 0 to {LONGEST_WAIT:g}")
    if for_people not in {"true", "false"}:
        raise malformed(("forPeople",), "is neither true nor false")
    return seconds, for_people == "true"


def read_after(query: QueryParams, headers: Headers) -> int:
    """Read the position of the last entry that is known. Raises ActionInputValidationError."""
    name, told = "after", query.get("after")
    if told is None:
        name, told = "Last-Event-ID", headers.get("last-event-id", "0")
    if not _is_count(told):
        raise malformed((name,), "is no position of an entry")
    return int(told)


def ensure_can_be(id_: str) -> None:
    """Raise RunUnknownError for what cannot be the id of anything."""
    if not (0 < len(id_) <= LONGEST_ID and id_.isprintable()):
        raise RunUnknownError(id_[:LONGEST_ID])


def malformed(path: tuple[str, ...], told: str) -> ActionInputValidationError:
    return ActionInputValidationError(RUNS, [Issue(path, "request_malformed", told)])


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = parse(body, around=_AROUND)
    except NotJsonError as error:
        raise ActionInputValidationError(RUNS, [error.issue]) from error
    if not isinstance(data, dict):
        raise malformed((), "is no object")
    return data


def _ensure_parts(data: dict[str, Any], parts: Collection[str]) -> None:
    if others := data.keys() - set(parts):
        raise malformed((min(others),), f"is no part of this request ({', '.join(sorted(parts)) or 'it has none'})")


def _text(data: dict[str, Any], name: str, *, optional: bool = False) -> Any:
    value = data.get(name)
    if isinstance(value, str) or (optional and value is None):
        return value
    raise malformed((name,), "is no text" if name in data else "is missing")


def _seconds(data: dict[str, Any]) -> float | None:
    value = data.get("timeout")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_TIMEOUT:
        raise malformed(("timeout",), f"is no number of seconds above 0, of {LONGEST_TIMEOUT:.0f} at most")
    return float(value)


def _is_count(told: str) -> bool:
    return told.isascii() and told.isdecimal() and len(told) <= _DIGITS
