"""Read the body of a request, no further than the limits go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from grundlag_bus.errors import PayloadTooLargeError
from grundlag_bus.gateway.refusing import CLOSE, JSON, Refused, failed_of
from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    from starlette.requests import Request

    from grundlag_bus.gateway.limits import GatewayLimits


async def read_json_text(request: Request, limits: GatewayLimits) -> bytes:
    """Return the body, which says that it is JSON. Raises Refused, ClientDisconnect."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        # A page in a browser cannot send this type elsewhere without being allowed to.
        raise Refused(
            415, Failed("input_invalid", f"The body has to be of type {JSON}: say so in Content-Type."), CLOSE
        )
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise Refused(400, Failed("input_invalid", "The body has two lengths: it could be read as two bodies."), CLOSE)
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > limits.body:
        raise _too_large(limits.body, int(told))
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _all_of(request, limits.body)
    except TimeoutError:
        seconds = limits.body_seconds
        raise Refused(408, Failed("input_invalid", f"The body was not here within {seconds:g} s."), CLOSE) from None


async def _all_of(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit, size)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limit: int, size: int) -> Refused:
    error = PayloadTooLargeError(
        f"The body is {size} bytes or more and the limit is {limit}: send less, or a reference to it.",
        details={"limit": limit, "size": size},
    )
    return Refused(413, failed_of(error), CLOSE)
