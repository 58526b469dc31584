"""How a tool call ended, as data for the model: a result, or what went wrong in a form that it can act on."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.agent.shorten import Shortened, shorten
from grundlag_bus.errors import CallError, Issue, NotJsonError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from grundlag_bus.agent.model import ToolCall

_LOGGER = get_logger("grundlag_bus.agent")
MAX_BYTES = 32 * 1024
"""Bytes of JSON that a result may take, unless `AgentTools` is told otherwise: some eight thousand tokens."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one tool call ended.

    ok: whether it completed; summary: one line for people; data: plain JSON data, the result, or of a failure
    {code, message, issues?, details?, retryable?}; shortened: what is missing of `data`, None where all is there. What
    was left out is nowhere else: a tool that has much to hand over emits an item.
    """

    ok: bool
    summary: str
    data: Any = None
    shortened: Shortened | None = None

    @property
    def code(self) -> str | None:
        """The code of a failure; None of a result."""
        return None if self.ok or not isinstance(self.data, dict) else self.data.get("code")

    @property
    def text(self) -> str:
        """What a model is told."""
        told = self.data if self.ok else {"error": self.data}
        if self.shortened is not None:
            missing = {"bytes": self.shortened.size, "leftOut": list(self.shortened.left_out)}
            told = {"shortened": missing, **({"data": self.data} if self.ok else {"error": self.data})}
        return orjson.dumps(told).decode()


def completed(name: str, value: Any, limit: int) -> ToolResult:
    """Make the result of a call that gave a value; one that is no JSON data is a failure of the tool."""
    try:
        data, shortened = shorten(plain(value), limit)
    except NotJsonError as error:
        return failed("output_invalid", f"{name} returned what is no JSON data: {error}", limit=limit)
    more = "" if shortened is None else f" (shortened from {shortened.size} bytes)"
    return ToolResult(True, short(orjson.dumps(data)[:1000].decode(errors="ignore")) + more, data, shortened)  # noqa: FBT003  the field's place


def failed(  # noqa: PLR0913  the fields of a failure
    code: str,
    message: str,
    *,
    issues: tuple[Issue, ...] = (),
    details: Any = None,
    retryable: bool = False,
    limit: int = MAX_BYTES,
) -> ToolResult:
    """Make the result of a call that failed."""
    told: dict[str, Any] = {"code": code, "message": message}
    if issues:
        told["issues"] = [issue.to_json() for issue in issues]
    if details is not None:
        told["details"] = details
    if retryable:
        told["retryable"] = True
    data, shortened = shorten(told, limit)
    return ToolResult(False, f"{code}: {short(message, 500)}", data, shortened)  # noqa: FBT003  the field's place


def unknown(name: str) -> ToolResult:
    """Refuse a call of what is no tool here, or none that this agent may use: it cannot tell which."""
    message = f"Unknown tool: {short(name)}"
    return ToolResult(False, message, {"code": "tool_unknown", "message": message})  # noqa: FBT003  the field's place


def raised(call: ToolCall, error: CallError, limit: int) -> ToolResult:
    """Tell what a call's end is by its own words, where they are JSON data."""
    try:
        code, message, details = plain((str(error.code), str(error.message), error.details))
    except NotJsonError:
        return broken(call, error)
    if error.issues:  # the details say the same again
        return failed(code, message, issues=error.issues, retryable=error.retryable, limit=limit)
    return failed(code, message, details=details, retryable=error.retryable, limit=limit)


def broken(call: ToolCall, error: BaseException) -> ToolResult:
    """Log an error that nobody foresaw, and tell its type and where the log line is, never what it says."""
    reference = uuid.uuid4().hex[:12]
    kind = type(error).__name__
    _LOGGER.error("tool_raised", tool=call.name, call_id=call.id, reference=reference, exc_info=error)
    return failed(
        "internal",
        f"The tool {call.name} raised {kind}: the log has it under {reference}.",
        details={"type": kind, "reference": reference},
    )
