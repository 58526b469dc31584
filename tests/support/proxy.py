"""A TCP proxy before the broker, to cut, freeze, delay and refuse connections without touching the broker."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Proxy:
    """Forwards connections at `url` to the broker at `target`. Its port stays the same while it refuses."""

    def __init__(self, target: str, *, context: ssl.SSLContext | None = None) -> None:
        self._target = urlsplit(target)
        self._context = context
        self._port = 0
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._connections: set[asyncio.Task[None]] = set()
        self.accepted = 0
        """How many connections were made so far."""
        self.delay = 0.0
        """Seconds for which everything is held, in each direction; twice that where there is much."""

    @property
    def url(self) -> str:
        credentials = self._target.netloc.rpartition("@")[0]
        scheme = "amqps" if self._context else "amqp"
        return urlunsplit((scheme, f"{credentials}@localhost:{self._port}", self._target.path, "", ""))

    @property
    def port(self) -> int:
        return self._port

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def accept(self) -> None:
        """Take connections, at first and after `refuse`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._context)
        self._port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Take no more connections, as if nothing listened; those that exist stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def cut(self) -> None:
        """Drop every connection."""
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def freeze(self) -> None:
        """Forward nothing more, in either direction, and keep the connections: half-open, as seen from both ends."""
        self._flowing.clear()

    def half_open(self) -> None:
        """Forward nothing more on the connections that there are, not even their end; new ones are well."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def lead_to(self, target: str) -> None:
        """Forward new connections elsewhere."""
        self._target = urlsplit(target)

    def thaw(self) -> None:
        self._flowing.set()

    async def close(self) -> None:
        await self.refuse()
        await self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("proxy")
        self.accepted += 1
        self._connections.add(task)
        writers = [writer]
        try:
            with suppress(ConnectionError):
                upstream = await asyncio.open_connection(self._target.hostname, self._target.port)
                writers.append(upstream[1])
                ways = [
                    asyncio.create_task(self._forward(reader, upstream[1]), name="proxy"),
                    asyncio.create_task(self._forward(upstream[0], writer), name="proxy"),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        except asyncio.CancelledError:
            pass  # cut
        finally:
            self._connections.discard(task)
            for each in writers:
                each.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flowing = self._flowing
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                await asyncio.sleep(self.delay)
                await flowing.wait()
                writer.write(data)
                await writer.drain()
        await flowing.wait()


@asynccontextmanager
async def proxy_to(target: str, *, context: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """Open a proxy to the broker at this URL, with TLS where a context is given."""
    proxy = Proxy(target, context=context)
    await proxy.accept()
    try:
        yield proxy
    finally:
        await proxy.close()
