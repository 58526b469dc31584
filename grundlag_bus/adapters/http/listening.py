"""Listening to events at an HTTP host.

Rules:
- Nothing is missed from when the host says that it listens. What is emitted while the connection is away is lost, and
  each time that it was counts as a gap.
- The host is tried again for as long as the listener is entered.
- What waits here is bounded: the stream is not read on until the events are taken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from grundlag_bus.adapters.http.host import read_body
from grundlag_bus.adapters.http.sse import read_events
from grundlag_bus.adapters.listening import PREFETCH, EventListener
from grundlag_bus.errors import BusUnreachableError, ConfigurationError, EnvelopeError, TransportError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.schema.event import EmittedEvent, decode_event

if TYPE_CHECKING:
    import httpx2

    from grundlag_bus.adapters.http.host import HttpHost

QUIET = 25.0
"""Seconds without a heartbeat, of which one comes every 10, after which a connection counts as lost."""
_LARGEST = MAX_BYTES + 64 * 1024
_LONGEST_PAUSE = 5.0

_LOGGER = get_logger("grundlag_bus.adapters")


class HttpListener(EventListener):
    """Listens by a stream of its own."""

    def __init__(self, host: HttpHost, pattern: str) -> None:
        super().__init__(pattern)
        self._host = host
        self._url = f"{host.address.events}?{urlencode({'pattern': pattern})}"
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def _attach(self) -> None:
        listens: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.get_running_loop().create_task(self._read_on(listens))
        try:
            await listens
        except BaseException:
            await self._detach()
            raise

    async def _detach(self) -> None:
        if self._reading is not None:
            reading, self._reading = self._reading, None
            reading.cancel()
            await asyncio.wait({reading})

    async def __anext__(self) -> EmittedEvent:
        event = await super().__anext__()
        self._room.set()
        return event

    async def _read_on(self, listens: asyncio.Future[None]) -> None:
        """Read for as long as anybody listens; the first try says whether that is possible."""
        pause = 0.0
        while True:
            try:
                async with self._host.answer(
                    "GET", self._url, headers={"accept": "text/event-stream"}, quiet=QUIET
                ) as response:
                    await _ensure_stream(response, at=str(self._host.address))
                    async for sent in read_events(response.aiter_raw(), limit=_LARGEST):
                        pause = 0.0
                        if not listens.done():
                            listens.set_result(None)
                        if sent.kind == "event":
                            await self._take(sent.data)
            except (TransportError, EnvelopeError, ConfigurationError) as error:
                if not listens.done():
                    reached = error if isinstance(error, TransportError) else BusUnreachableError(str(error))
                    listens.set_exception(reached)
                    return
                _LOGGER.warning("events_interrupted", reason=str(error), pattern=self._pattern)
            self.gaps += 1
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2 + 0.1)

    async def _take(self, data: bytes) -> None:
        try:
            event = decode_event(data)
        except EnvelopeError as error:
            _LOGGER.warning("event_refused", reason=error.reason, pattern=self._pattern)
            return
        if not self.matches(event):
            _LOGGER.warning("event_refused", reason=f"it names {event.key!r}", pattern=self._pattern)
            return
        while len(self._heard) >= PREFETCH:
            self._room.clear()
            await self._room.wait()
        self.hear(event)


async def _ensure_stream(response: httpx2.Response, *, at: str) -> None:
    """Raise BusUnreachableError for an answer that is no stream of events."""
    if response.is_success and response.headers.get("content-type", "").startswith("text/event-stream"):
        return
    await read_body(response, limit=_LARGEST)
    raise BusUnreachableError(
        f"The host {at} lets nobody listen there (status {response.status_code}): correct the token or the address."
    )
