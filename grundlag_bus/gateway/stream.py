"""Server-sent events: a response that goes on, with a sign of life where nothing happens.

Written here and not by sse-starlette, which changes uvicorn's classes when it is imported and ends every stream at the
first signal, whether a call may still use its grace time or not.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.responses import Response

from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AsyncExitStack

    from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_SECONDS = 10.0
SEND_SECONDS = 30.0
"""How long a reader may take nothing."""
HEARTBEAT = b": alive\n\n"

_LOGGER = get_logger("grundlag_bus.gateway")


def event(name: str, data: bytes) -> bytes:
    """Write an event. data: JSON on one line, as orjson writes it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


class EventStream(Response):
    """Sends what an async generator gives, which is closed when the reader goes away or the stream is at its end."""

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        during: AsyncExitStack,
        *,
        headers: Mapping[str, str] | None = None,
        until: asyncio.Event | None = None,
    ) -> None:
        """during: is left at the end; until: ends the stream when it is set."""
        super().__init__(None, 200, {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        self._parts = parts
        self._during = during
        self._until = until
        self.headers["Content-Type"] = MEDIA_TYPE
        del self.headers["Content-Length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._during, aclosing(self._parts):
            loop = asyncio.get_running_loop()
            ends = {loop.create_task(gone(receive))}
            if self._until is not None:
                ends.add(loop.create_task(_set(self._until)))
            try:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                if scope["method"] != "HEAD":
                    await self._send_all(ends, send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                _LOGGER.warning("reader_too_slow", seconds=SEND_SECONDS)  # the server closes what has no end
            finally:
                for end in ends:
                    end.cancel()

    async def _send_all(self, ends: set[asyncio.Task[None]], send: Send) -> None:
        """Send until the parts or the reader are at their end."""
        while True:
            coming = asyncio.ensure_future(anext(self._parts, None))
            try:
                while not coming.done():
                    await asyncio.wait({coming, *ends}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    if any(end.done() for end in ends):
                        return
                    if not coming.done():
                        await _send(send, HEARTBEAT)
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait({coming})
            part = coming.result()
            if part is None:
                return
            await _send(send, part)


async def _send(send: Send, part: bytes) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def gone(receive: Receive) -> None:
    """Wait until the other side has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _set(event: asyncio.Event) -> None:
    await event.wait()
