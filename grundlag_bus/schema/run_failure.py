"""What is said of runs by raising, as data, and back: what is raised at an HTTP host is raised at its client."""

from __future__ import annotations

from typing import Any

from grundlag_bus.errors import (
    ActionInputValidationError,
    CallError,
    ConfigurationError,
    GrundlagError,
    InterruptUnknownError,
    NotJsonError,
    RunStateError,
    RunUnknownError,
    StoreAwayError,
    error_from_failure,
)
from grundlag_bus.schema.envelope import Failed

RUNS = "runs"
"""What stands in the place of an action's id."""
_CODES: dict[type[GrundlagError], str] = {
    RunUnknownError: "run_unknown",
    InterruptUnknownError: "interrupt_unknown",
    RunStateError: "run_state",
    ConfigurationError: "run_refused",
    StoreAwayError: "store_away",
}
"""In this order, since an unknown interrupt is a state of its run too."""


def failure_of(error: GrundlagError) -> Failed | None:
    """Say an error as data; None for one that has nothing to do with runs."""
    if isinstance(error, NotJsonError):
        error = ActionInputValidationError(RUNS, [error.issue])
    if isinstance(error, CallError):
        return Failed(error.code, error.message, error.details, error.retryable)
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    return None if code is None else Failed(code, str(error), _details(error), retryable=code == "store_away")


def _details(error: GrundlagError) -> dict[str, Any] | None:
    match error:
        case RunUnknownError():
            return {"runId": error.run_id}
        case InterruptUnknownError():
            return {"interruptIds": list(error.interrupt_ids), "pending": list(error.pending)}
    return None


def error_of(failed: Failed) -> GrundlagError:
    """Make the exception that was said."""
    details = failed.details if isinstance(failed.details, dict) else {}
    match failed.code:
        case "run_unknown":
            return RunUnknownError(str(details.get("runId")))
        case "interrupt_unknown":
            return InterruptUnknownError(_texts(details.get("interruptIds")), _texts(details.get("pending")))
        case "run_state":
            return RunStateError(failed.message)
        case "run_refused" | "not_found":
            return ConfigurationError(failed.message)
        case "store_away":
            return StoreAwayError(failed.message)
    return error_from_failure(failed.code, failed.message, failed.details, retryable=failed.retryable, action_id=RUNS)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
