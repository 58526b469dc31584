"""What goes wrong in a call, as the failed response that its caller gets."""

from __future__ import annotations

import uuid
from typing import Any

from grundlag_bus.errors import ActionFailed, ActionOutputValidationError, CallError, NotJsonError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.envelope import Call, Failed

_LOGGER = get_logger("grundlag_bus.providers")

Items = list[dict[str, Any]]


def refused(error: CallError, items: Items | None = None) -> Failed:
    """Tell what this package says of a call."""
    return Failed(error.code, error.message, error.details, error.retryable, items or [])


def output_refused(call: Call, error: ActionOutputValidationError, items: Items) -> Failed:
    """Tell, and log where the action runs, that what it gave is not what it promised."""
    _LOGGER.warning("output_invalid", **_fields(call), issues=[str(issue) for issue in error.issues])
    return refused(error, items)


def told_by_action(call: Call, error: ActionFailed, items: Items) -> Failed:
    """Pass on what an action says of its own failure, where that is JSON data."""
    try:
        code = plain(str(error.code), at=("failed", "code"))
        message = plain(str(error.message), at=("failed", "message"))
        details = plain(error.details, at=("failed", "details"))
    except NotJsonError as not_json:
        return output_refused(call, ActionOutputValidationError(call.action_id, [not_json.issue]), items)
    return Failed(code, message, details, error.retryable, items)


def internal(call: Call, error: BaseException, items: Items, *, again: bool = False) -> Failed:
    """Log what was raised in full, and tell its type and where the log line is. again: the action is tried again."""
    reference = uuid.uuid4().hex[:12]
    kind = type(error).__name__
    log = _LOGGER.warning if again else _LOGGER.error
    log("action_raised", **_fields(call), reference=reference, attempt=call.attempt, again=again, exc_info=error)
    return Failed(
        "internal",
        f"Action {call.provider_id}.{call.action_id} raised {kind}: the log of its worker has it under {reference}.",
        {"type": kind, "reference": reference},
        items=items,
    )


def action_unknown(call: Call) -> Failed:
    return Failed(
        "action_unknown",
        f"Provider {call.provider_id!r} has no action {call.action_id!r} here: list what there is with "
        "`grundlag-bus tools`.",
    )


def over_limit(call: Call, limit: float) -> Failed:
    """Tell that an action ran for as long as its lane allows."""
    return Failed(
        "deadline_exceeded",
        f"{call.provider_id}.{call.action_id} ran for {limit:g} s, which is the limit of lane {call.lane!r}: give it "
        "less to do at once, let it Defer, or declare it in lane 'long'.",
        {"published": True, "limit": limit},
    )


def idle(call: Call, seconds: float | None) -> Failed:
    """Tell that an action made no progress for as long as it allows itself."""
    return Failed(
        "deadline_exceeded",
        f"{call.provider_id}.{call.action_id} reported no progress for {seconds:g} s, which is its idle_timeout.",
        {"published": True, "idle": seconds},
    )


def _fields(call: Call) -> dict[str, Any]:
    traced = {} if call.trace is None else {"trace_id": call.trace.trace_id}
    return {"provider": call.provider_id, "action": call.action_id, "call_id": call.call_id, **traced}
