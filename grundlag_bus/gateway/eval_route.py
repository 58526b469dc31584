"""`POST /api/eval`: a script that calls tools, in the sandbox beside the host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ActionInputValidationError, ConfigurationError, Issue, NotJsonError
from grundlag_bus.gateway.asking import timeout_of, trace_of
from grundlag_bus.gateway.body import read_json_text
from grundlag_bus.gateway.refusing import Refused, busy, json_response
from grundlag_bus.gateway.scripts import SECONDS
from grundlag_bus.gateway.stream import gone
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from grundlag_bus.gateway.host import Host

_NAME = "eval"


async def run_script(host: Host, request: Request) -> Response:
    """Run a script, and answer when it has ended. Raises CallError, Refused."""
    user_id = await host.user_id(request)
    if host.draining:
        raise busy(503, "The host drains: send it again, it may be another one.", after=1)
    source, inputs = _read(await read_json_text(request, host.limits))
    told = timeout_of(request.headers, _NAME)
    shown = await host.catalogue.shown_to(user_id)
    leaving = asyncio.get_running_loop().create_task(gone(request.receive))
    try:
        with host.shares.one(user_id), host.script_shares.one(user_id):
            answer = await host.scripts.run(
                source,
                inputs,
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
    return json_response(answer)


def _read(body: bytes) -> tuple[str, dict[str, Any]]:
    try:
        data = parse(body, around=2)
    except NotJsonError as error:
        raise ActionInputValidationError(_NAME, [error.issue]) from error
    if not isinstance(data, dict) or not data.keys() <= {"source", "inputs"}:
        raise _malformed((), "is no object with 'source', and 'inputs' where there are any")
    source, inputs = data.get("source"), data.get("inputs", {})
    if not isinstance(source, str):
        raise _malformed(("source",), "is no text")
    if not isinstance(inputs, dict):
        raise _malformed(("inputs",), "is no object")
    return source, inputs


def _malformed(path: tuple[str, ...], told: str) -> ActionInputValidationError:
    return ActionInputValidationError(_NAME, [Issue(path, "request_malformed", told)])
