"""Values that are no JSON, by name, so that a call can ask an action to return one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def nested(levels: int) -> Any:
    """Make lists in lists: `nested(1)` is `[]`."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


HAZARDS: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN": (lambda: float("nan"), "not_finite"),
    "infinity": (lambda: float("-inf"), "not_finite"),
    "an integer of 65 bits": (lambda: 2**64, "integer_too_large"),
    "an unsigned integer of 64 bits": (lambda: 2**63, "integer_too_large"),
    "a naive datetime": (lambda: datetime(2026, 1, 1), "naive_datetime"),  # noqa: DTZ001  that is the hazard
    "129 levels": (lambda: nested(129), "too_deep"),
    "a lone surrogate": (lambda: "\ud800", "not_unicode"),
    "a set": (lambda: {1}, "not_json"),
    "bytes": (lambda: b"\xff", "not_json"),
    "a number as key": (lambda: {1: 1}, "key_not_text"),
    "an object": (object, "not_json"),
}
"""Each with the code that refuses it."""


def hazard(name: str) -> Any:
    return HAZARDS[name][0]()
