"""`POST /api/actions/{providerId}/{actionId}`: one call, as JSON or as a stream; DELETE asks for its end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from grundlag_bus.errors import ActionInputValidationError, Issue
from grundlag_bus.gateway.asking import call_id_of, key_of
from grundlag_bus.gateway.body import read_json_text
from grundlag_bus.gateway.refusing import JSON, busy
from grundlag_bus.gateway.stream import MEDIA_TYPE, EventStream, event, gone
from grundlag_bus.schema.progress import progress_to_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

    from grundlag_bus.gateway.host import Host
    from grundlag_bus.gateway.kept import Ended
    from grundlag_bus.gateway.running import RunningCall
    from grundlag_bus.schema.progress import Progress

MOST_UNREAD = 1000
"""Reports that wait for a reader who is slow; the next ones are left out, and items come again with the reply."""


async def call_action(host: Host, request: Request) -> Response:
    """Call, and answer when the call has ended; or at once, with a stream. Raises CallError, Refused."""
    user_id = await host.user_id(request)
    if host.draining:
        raise busy(503, "The host drains: call again, it may be another one.", after=1)
    body = await read_json_text(request, host.limits)
    provider_id, action_id = _ids(request)
    asked = await host.asking.read(provider_id, action_id, user_id=user_id, headers=request.headers, body=body)
    streams = MEDIA_TYPE in request.headers.get("accept", "")
    running = host.calls.begin(asked, watched=streams)
    headers = {"X-Call-Id": asked.call.call_id, "Cache-Control": "no-store"}
    if streams:
        return _stream(running, headers)
    ended = await _end_of(running, request)
    if ended is None:
        return Response(status_code=499)  # nobody reads it
    return Response(ended.body, ended.status, headers, JSON)


async def cancel_action(host: Host, request: Request) -> Response:
    """Ask for the end of the call that has this key. Raises CallError, Refused."""
    user_id = await host.user_id(request)
    provider_id, action_id = _ids(request)
    host.asking.ensure_allowed(user_id, provider_id, action_id)
    key = key_of(request.headers, user_id, action_id)
    if key is None:
        issue = Issue(("Idempotency-Key",), "request_malformed", "is missing: it says which call is meant")
        raise ActionInputValidationError(action_id, [issue])
    host.calls.cancel(key, call_id_of(key))
    return Response(status_code=204)


def _ids(request: Request) -> tuple[str, str]:
    return request.path_params["provider_id"], request.path_params["action_id"]


async def _end_of(running: RunningCall, request: Request) -> Ended | None:
    """Wait for the end of the call; None if the other side has gone away first."""
    leaving = asyncio.get_running_loop().create_task(gone(request.receive))
    try:
        with running.waited_for():
            await asyncio.wait((running.ended, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    return running.ended.result() if running.ended.done() else None


def _stream(running: RunningCall, headers: dict[str, str]) -> EventStream:
    told = _Told(running)
    during = AsyncExitStack()
    during.enter_context(running.waited_for(told.hear))
    return EventStream(told.parts(), during, headers=headers)


class _Told:
    """What a call tells, until somebody reads it."""

    def __init__(self, running: RunningCall) -> None:
        self._running = running
        self._unread: list[Progress] = []
        self._changed = asyncio.Event()
        running.ended.add_done_callback(lambda _: self._changed.set())

    def hear(self, progress: Progress) -> None:
        if len(self._unread) < MOST_UNREAD:
            self._unread.append(progress)
            self._changed.set()

    async def parts(self) -> AsyncGenerator[bytes, None]:
        ended = self._running.ended
        while self._unread or not ended.done():
            self._changed.clear()
            unread, self._unread = self._unread, []
            for progress in unread:
                yield event("progress", orjson.dumps(progress_to_json(progress)))
            if not ended.done():
                await self._changed.wait()
        reply = ended.result()
        yield event("reply", b'{"httpStatus":%d,"response":%s}' % (reply.status, reply.body))
