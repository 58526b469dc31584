"""How a value is refused: the signal that collects the place on its way out, and the checks of single values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import Issue, NotJsonError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

    from grundlag_bus.errors import IssuePath

LONE_SURROGATE = "the text holds half of a surrogate pair, which no encoding can write"

_SHOWN = 120  # characters of a foreign text that a message may hold
_SAID = 1000  # characters of a message that is foreign as a whole, as a validator's of the user's own
_INSTEAD: dict[type, str] = {
    bytes: "base64 text",
    bytearray: "base64 text",
    memoryview: "base64 text",
    set: "a list",
    frozenset: "a list",
}


class Refusal(Exception):  # noqa: N818  a signal inside this package: users see the NotJsonError made of it
    """Something is no JSON data; `steps` grows from the place outwards."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        self.steps: list[str | int] = []

    def as_error(self, at: IssuePath = ()) -> NotJsonError:
        return NotJsonError(brief_issue((*at, *reversed(self.steps)), self.code, self.message))


def instant(value: datetime) -> str:
    if value.utcoffset() is None:
        raise Refusal("naive_datetime", "a time without an offset names no instant: give the datetime a tzinfo")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise Refusal("not_json", "the time is outside the years 1 to 9999 in UTC") from None
    return f"{moment.replace(tzinfo=None).isoformat()}Z"


def ensure_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal("not_unicode", LONE_SURROGATE) from None


def short(text: str, most: int = _SHOWN) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}..."


def brief_issue(path: Iterable[str | int], code: str, message: str) -> Issue:
    """Make an issue whose size does not depend on the value's: long keys and messages are cut."""
    return Issue(tuple(map(_brief_step, path)), short(code), short(message, _SAID))


def _brief_step(step: str | int) -> str | int:
    return f"{step[:_SHOWN]}..." if isinstance(step, str) and len(step) > _SHOWN else step


def integer_too_large() -> Refusal:
    return Refusal("integer_too_large", "the integer does not fit 64 bits: send it as text")


def not_finite(value: float | Decimal) -> Refusal:
    return Refusal("not_finite", f"{value} is no JSON number: send null, or leave it out")


def not_json(value: Any) -> Refusal:
    kind = type(value)
    instead = _INSTEAD.get(kind)
    more = f": send {instead}" if instead else ""
    return Refusal("not_json", f"a value of type {kind.__qualname__} is no JSON data{more}")
