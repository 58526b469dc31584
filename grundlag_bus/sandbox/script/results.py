"""What a script gave, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from grundlag_bus.errors import Issue, NotJsonError, PayloadTooLargeError, ScriptValueError
from grundlag_bus.schema.codec import MAX_BYTES, encoded_size, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.sandbox.script.history import CallState


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One call that a script made: `value` of a completed one, `code` and `message` of a failed one.

    started_at, ended_at: Unix seconds; line: in the script, where the script was run to there.
    """

    number: int
    function: str
    input: Any
    status: Literal["completed", "failed", "interrupted", "running"]
    value: Any
    code: str | None
    message: str | None
    started_at: float
    ended_at: float | None
    line: int | None

    def to_json(self) -> dict[str, Any]:
        ending = {"value": self.value} if self.status == "completed" else {"code": self.code, "message": self.message}
        return {
            "function": self.function,
            "input": self.input,
            "status": self.status,
            **{name: value for name, value in ending.items() if self.status == "completed" or value is not None},
            "line": self.line,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
        }


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What a script gave: the value of its last expression, what it printed, and its calls as it made them."""

    value: Any
    stdout: str
    calls: tuple[ScriptCall, ...]


def calls_of(states: Iterable[CallState]) -> tuple[ScriptCall, ...]:
    return tuple(_call_of(state) for state in sorted(states, key=lambda state: state.number))


def _call_of(state: CallState) -> ScriptCall:
    outcome = state.outcome
    status = "running" if outcome is None or state.answer is not None else outcome.status
    asked = None if state.interrupt is None else state.interrupt.message
    return ScriptCall(
        number=state.number,
        function=state.function,
        input=state.input,
        status=cast("Literal['completed', 'failed', 'interrupted', 'running']", status),
        value=None if outcome is None else outcome.value,
        code=None if outcome is None else outcome.code,
        message=asked if outcome is None or outcome.message is None else outcome.message,
        started_at=state.started_at,
        ended_at=state.ended_at,
        line=state.line,
    )


def json_value(value: Any) -> Any:
    """Return a script's value as plain JSON data. Raises ScriptValueError."""
    try:
        data = plain(value)
    except NotJsonError as error:
        raise ScriptValueError(error.issue) from error
    if (size := encoded_size(data)) > MAX_BYTES:
        told = f"it takes {size} bytes as JSON, and the limit is {MAX_BYTES}: give less"
        raise ScriptValueError(Issue((), PayloadTooLargeError.code, told))
    return data
