"""What goes wrong with a vendor's model, as errors of an agent's model."""

from __future__ import annotations

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    UnexpectedModelBehavior,
    UserError,
)

from grundlag_bus.errors import ModelError
from grundlag_bus.schema.refusal import short

_SERVER = 500  # from here on an HTTP status says that it was not the request's fault

# The first that fits counts: what a request will never get, before what it may get later.
_KINDS: tuple[tuple[type[Exception], str, bool], ...] = (
    (ModelQuotaExceededError, "refused", False),
    (ModelRequestRejectedError, "refused", False),
    (UserError, "refused", False),
    (ModelRateLimitError, "rate_limited", True),
    (ModelConnectionError, "unreachable", True),
    (ModelRequestTimeout, "unreachable", True),
    (UnexpectedModelBehavior, "reply_invalid", True),
)


def model_error(name: str, error: Exception) -> ModelError:
    """Translate an error of pydantic-ai."""
    code, retryable = _kind(error)
    return ModelError(
        f"The model {name} gave no reply ({code}): {short(str(error), 500)}",
        code=code,
        retryable=retryable,
        retry_after=error.retry_after if isinstance(error, ModelAPIError) else None,
    )


def _kind(error: Exception) -> tuple[str, bool]:
    for kind, code, retryable in _KINDS:
        if isinstance(error, kind):
            return code, retryable
    if isinstance(error, ModelHTTPError) and error.status_code < _SERVER:
        return "refused", False
    return ("unavailable", True) if isinstance(error, ModelAPIError) else ("internal", False)
