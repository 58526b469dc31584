"""How a run ended, as it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson


@dataclass(frozen=True, slots=True)
class Outcome:
    """error: {code, message, details?} of a failed or a cancelled one."""

    status: Literal["completed", "failed", "cancelled"]
    value: Any = None
    stdout: str = ""
    error: dict[str, Any] | None = None

    def encode(self) -> bytes:
        return orjson.dumps({"value": self.value, "stdout": self.stdout, "error": self.error})


def failed(code: str, message: str, details: Any = None, *, stdout: str = "") -> Outcome:
    """Make the outcome of a run that failed."""
    error = {"code": code, "message": message, "details": details}
    return Outcome("failed", stdout=stdout, error={name: told for name, told in error.items() if told is not None})


CANCELLED = Outcome("cancelled", error={"code": "cancelled", "message": "The run was cancelled."})
