"""A TCP proxy before the broker: the fleet connects through it, so that its connections can be cut, slowed and frozen.

It knows nothing of AMQP, and stands before several nodes as a load balancer does: each connection goes to the next one
that takes it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_PORT = 5672
_CONNECTS_WITHIN = 2.0
_CHUNK = 65_536


class TcpProxy:
    """See `Proxy`. Made by `proxy_to`."""

    def __init__(self, nodes: Sequence[SplitResult]) -> None:
        self._nodes = list(nodes)
        self._server: asyncio.Server | None = None
        self._turns = 0
        self._delay = 0.0
        self._connections: set[_Connection] = set()

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("The proxy takes no connections: enter `proxy_to`.")
        credentials, at, _ = self._nodes[0].netloc.rpartition("@")
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._nodes[0]._replace(netloc=f"{credentials}{at}127.0.0.1:{port}"))

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    async def cut(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def delay(self, seconds: float) -> None:
        self._delay = seconds

    async def freeze(self) -> None:
        for connection in self._connections:
            connection.flowing.clear()

    async def heal(self) -> None:
        self._delay = 0.0
        for connection in self._connections:
            connection.flowing.set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        serving = [connection.serving for connection in self._connections]
        await self.cut()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None  # noqa: S101  asyncio runs this in a task
        connection = _Connection(serving, writer)
        self._connections.add(connection)
        try:
            found = await self._next_node()
            if found is not None:
                connection.writers.append(found[1])
                await asyncio.gather(
                    self._forward(connection, reader, found[1]), self._forward(connection, found[0], writer)
                )
        except (asyncio.CancelledError, ConnectionError):
            pass  # cut, or by one of its ends
        finally:
            connection.abort()
            self._connections.discard(connection)

    async def _next_node(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        self._turns += 1
        for turn in range(len(self._nodes)):
            node = self._nodes[(self._turns + turn) % len(self._nodes)]
            with suppress(OSError):  # a time-out is one
                async with asyncio.timeout(_CONNECTS_WITHIN):
                    return await asyncio.open_connection(node.hostname, node.port or _PORT)
        return None

    async def _forward(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(_CHUNK):
            if self._delay:
                await asyncio.sleep(self._delay)
            await connection.flowing.wait()
            writer.write(data)
            await writer.drain()
        await connection.flowing.wait()
        raise ConnectionResetError  # either end is the end of both ways


class _Connection:
    """Both ways of a connection."""

    def __init__(self, serving: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self.serving = serving
        self.writers = [writer]
        self.flowing = asyncio.Event()
        self.flowing.set()

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        if self.serving is not asyncio.current_task():
            self.serving.cancel()


@asynccontextmanager
async def proxy_to(url: str, *more: str) -> AsyncIterator[TcpProxy]:
    """Open a proxy to the broker at this URL, and to the other nodes of its cluster.

    Raises ConfigurationError: nothing can stand between the two ends of TLS.
    """
    nodes = [urlsplit(each) for each in (url, *more)]
    if any(node.scheme != "amqp" for node in nodes):
        raise ConfigurationError("A proxy has no certificate of the broker: use an address that begins with amqp://.")
    proxy = TcpProxy(nodes)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
