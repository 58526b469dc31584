"""What is answered in place of a reply: the body of a failed call, with its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from grundlag_bus.errors import CallError
from grundlag_bus.gateway.status import status_of
from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON = "application/json"
CLOSE = {"Connection": "close"}
"""For who is not listened to any longer, in the middle of a request."""


class Refused(Exception):  # noqa: N818  the end of a request, whoever's fault it is
    """A request is refused with a status of its own."""

    def __init__(self, status: int, failed: Failed, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.failed = failed
        self.headers = dict(headers or {})
        super().__init__(failed.message)


def busy(status: int, message: str, *, after: float) -> Refused:
    """Refuse what may be asked again after so many seconds."""
    seconds = max(1, round(after + 0.5))
    return Refused(status, Failed("overloaded", message, retryable=True), {"Retry-After": str(seconds)})


def failed_of(error: CallError) -> Failed:
    """Make the response that an error is on the wire."""
    return Failed(error.code, error.message, error.details, error.retryable)


def refusal(error: Refused | CallError) -> Response:
    """Answer with a refusal."""
    if isinstance(error, CallError):
        failed = failed_of(error)
        headers = {"WWW-Authenticate": "Bearer"} if error.code == "unauthenticated" else {}
        return json_response(failed.to_json(), status_of(failed), headers)
    return json_response(error.failed.to_json(), error.status, error.headers)


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON that no cache keeps."""
    return Response(orjson.dumps(data), status, {"Cache-Control": "no-store", **(headers or {})}, JSON)
