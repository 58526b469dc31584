"""`GET /live` and `GET /ready`, for whoever starts this process and leads calls to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.gateway.refusing import json_response
from grundlag_bus.telemetry import Report

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from grundlag_bus.gateway.host import Host


async def show_live(_: Host, __: Request) -> Response:
    """Answer, which is what liveness is."""
    return _told(Report(ok=True, reasons=()))


async def show_ready(host: Host, _: Request) -> Response:
    """Say whether calls should come here now."""
    reasons = []
    if host.draining:
        reasons.append("it drains")
    transport = host.bus.transport
    if transport is not None:
        state = transport.state
        if not state.connected:
            reasons.append("the bus cannot be reached")
        elif state.blocked:
            reasons.append("the broker takes nothing")
    return _told(Report(ok=not reasons, reasons=tuple(reasons)))


def _told(report: Report) -> Response:
    return json_response({"ok": report.ok, "reasons": report.reasons}, 200 if report.ok else 503)
