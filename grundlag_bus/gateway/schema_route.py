"""What describes the host: the manifest, the OpenAPI document and the page that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from grundlag_bus.gateway.openapi import openapi
from grundlag_bus.gateway.page import PAGE, POLICY
from grundlag_bus.gateway.refusing import JSON

if TYPE_CHECKING:
    from starlette.requests import Request

    from grundlag_bus.gateway.host import Host


async def show_manifest(host: Host, request: Request) -> Response:
    """Answer with the user's part of the manifest. Raises CallError, Refused."""
    shown = await host.catalogue.shown_to(await host.user_id(request), within=host.manifest_seconds)
    return _tagged(request, shown.body, shown.tag)


async def show_openapi(host: Host, request: Request) -> Response:
    """Answer with the OpenAPI document of the user's part. Raises CallError, Refused."""
    shown = await host.catalogue.shown_to(await host.user_id(request), within=host.manifest_seconds)
    has_runs = host.runs is not None
    document = openapi(shown.manifest, asks_for_tokens=host.access.asks_for_tokens, has_runs=has_runs)
    tag = f'{shown.tag[:-1]}-runs"' if has_runs else shown.tag
    return _tagged(request, orjson.dumps(document), tag)


async def show_page(_: Host, __: Request) -> Response:
    """Answer with a page that fetches the OpenAPI document, and holds nothing of it: anybody may see the page."""
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return Response(PAGE, 200, headers, "text/html")


def _tagged(request: Request, body: bytes, tag: str) -> Response:
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, X-User-Id"}
    wanted = [known.strip().removeprefix("W/") for known in request.headers.get("if-none-match", "").split(",")]
    if tag in wanted or "*" in wanted:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, JSON)
