"""`POST /api/eval`: a script that calls tools, in the sandbox beside the host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from grundlag_bus.errors import ActionInputValidationError, ConfigurationError, EnvelopeError, Issue, NotJsonError
from grundlag_bus.gateway.asking import ensure_own_name, timeout_of, trace_of
from grundlag_bus.gateway.body import read_json_text
from grundlag_bus.gateway.continuing import NAME, Script
from grundlag_bus.gateway.refusing import JSON, Refused, busy
from grundlag_bus.gateway.scripts import SECONDS
from grundlag_bus.gateway.stream import gone
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.envelope import Failed, request_from_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from grundlag_bus.gateway.host import Host

_PARTS = frozenset(("source", "inputs", "resumption"))
_AROUND = 3
"""Levels of a request that enclose data: {resumption: {answer: {id: ...}}}."""


async def run_script(host: Host, request: Request) -> Response:
    """Run a script, and answer when it has ended or asks. Raises CallError, Refused."""
    user_id = await host.user_id(request)
    if host.draining:
        raise busy(503, "The host drains: send it again, it may be another one.", after=1)
    script = _read(await read_json_text(request, host.limits))
    ensure_own_name(script.resumption, user_id, asks_for_tokens=host.access.asks_for_tokens)
    told = timeout_of(request.headers, NAME)
    shown = await host.catalogue.shown_to(user_id)
    leaving = asyncio.get_running_loop().create_task(gone(request.receive))
    try:
        with host.shares.one(user_id), host.script_shares.one(user_id):
            ended = await host.scripts.answer(
                script,
                manifest=shown.manifest,
                user_id=user_id,
                seconds=SECONDS if told is None else max(told, 0.0),
                trace=trace_of(request.headers),
                gone=leaving,
            )
    except ConfigurationError as error:
        raise Refused(404, Failed("not_found", f"This host runs no scripts. {error}")) from error
    finally:
        leaving.cancel()
    return Response(ended.body, ended.status, {"Cache-Control": "no-store"}, JSON)


def _read(body: bytes) -> Script:
    try:
        data = parse(body, around=_AROUND)
    except NotJsonError as error:
        raise ActionInputValidationError(NAME, [error.issue]) from error
    if not isinstance(data, dict) or not data.keys() <= _PARTS:
        raise _malformed((), "is no object with 'source', and 'inputs' and 'resumption' where there are any")
    source, inputs = data.get("source"), data.get("inputs", {})
    if not isinstance(source, str):
        raise _malformed(("source",), "is no text")
    if not isinstance(inputs, dict):
        raise _malformed(("inputs",), "is no object")
    try:
        resumption = request_from_json({"input": None, "resumption": data.get("resumption")}).resumption
    except EnvelopeError as error:
        raise _malformed(("resumption",), error.reason) from error
    return Script(source, inputs, resumption)


def _malformed(path: tuple[str, ...], told: str) -> ActionInputValidationError:
    return ActionInputValidationError(NAME, [Issue(path, "request_malformed", told)])
