"""What an answer of an HTTP host means for the call. Pure.

The body says it, whatever the status. A body that no host writes is that of something in between, or of another
program: then the status says whether the call can have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import BusUnreachableError, EnvelopeError, PublishUnsureError
from grundlag_bus.schema.envelope import Failed, response_from_json
from grundlag_bus.schema.progress import progress_from_json

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Response
    from grundlag_bus.schema.progress import Progress

REDIRECTS = range(300, 400)
_NOT_THERE = (429, 503)
_MAY_HAVE_RUN = range(500, 600)


def read_response(status: int, body: bytes, *, at: object) -> Response:
    """Read how the call ended. at: where the host is, for errors.

    Raises BusUnreachableError (no host is there at the moment, and the call did not run), PublishUnsureError (it may
    have), and EnvelopeError for a host's answer of another version.
    """
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        data = None
    if isinstance(data, dict) and "status" in data:
        return _response(data)
    return _of_something_else(status, at)


def read_ended(data: bytes) -> Response:
    """Read the event that ends a stream. Raises EnvelopeError."""
    try:
        told = orjson.loads(data)["response"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise EnvelopeError("the last event of the stream holds no response") from None
    return _response(told)


def _response(data: Any) -> Response:
    try:
        return response_from_json(data)
    except KeyError as error:
        raise EnvelopeError(f"the response lacks {error.args[0]!r}") from error


def _of_something_else(status: int, at: object) -> Response:
    if status in _NOT_THERE:
        raise BusUnreachableError(f"What answers at {at} says that no host is there at the moment (status {status}).")
    if status in _MAY_HAVE_RUN:
        raise PublishUnsureError(f"what answers at {at} lost the host (status {status})")
    if status in (401, 403, 407):
        told = f"What answers at {at} lets nobody pass without what it asks for (status {status})."
        return Failed("unauthenticated", told, {"published": False})
    why = "leads elsewhere, where no token is sent to" if status in REDIRECTS else "is no host of this version"
    return Failed(
        "provider_unavailable",
        f"What answers at {at} {why} (status {status}): correct the address.",
        {"published": False},
    )


def read_progress(data: bytes) -> Progress:
    """Read an event of progress. Raises EnvelopeError."""
    try:
        return progress_from_json(orjson.loads(data))
    except orjson.JSONDecodeError as error:
        raise EnvelopeError(f"the progress is no JSON: {error}") from error
