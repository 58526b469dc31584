"""A server for the host: uvicorn, told how to end, and patient with slow clients for so long and no longer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.gateway.access import MOST_HEAD_BYTES, ensure_guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from grundlag_bus.gateway.access import Authenticator
    from grundlag_bus.gateway.host import Host

HEAD_SECONDS = 15.0
"""How long the head of a request may take."""
KEEP_ALIVE_SECONDS = 75
_END_SECONDS = 5


class Server:
    """Serves a host in this loop. port: 0 takes any free one. Raises ConfigurationError."""

    def __init__(self, host: Host, *, address: str, port: int, auth: Authenticator | None) -> None:
        ensure_guarded(address, auth)
        self._host = host
        self._sockets = [_listen(address, port)]
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                host,
                http=_Protocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="error",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=_END_SECONDS,
            )
        )

    @property
    def url(self) -> str:
        """The address that is listened on."""
        address, port = self._sockets[0].getsockname()[:2]
        return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"

    @property
    def started(self) -> asyncio.Event:
        """Set when it takes requests."""
        return self._uvicorn.serving

    async def serve(self) -> None:
        """Serve until `drain` or `abort`. Raises what opening the bus raises."""
        async with self._host.opened():
            await self._uvicorn.serve(sockets=self._sockets)

    async def drain(self, grace: float) -> None:
        """Take no more calls, let those that run end for `grace` seconds, then close.

        Meanwhile the port is listened on: calls are refused, and `/ready` says so.
        """
        await self._host.drain(grace)
        self._uvicorn.should_exit = True

    def abort(self) -> None:
        """Close at once."""
        self._uvicorn.should_exit = self._uvicorn.force_exit = True


class _Uvicorn(uvicorn.Server):
    """Says when it serves, and leaves signals to whoever started it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Protocol(HttpToolsProtocol):
    """Closes a connection whose next head does not come, or has no end: uvicorn waits for both without end."""

    _head: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        self._head_bytes = self._head_bytes + len(data) if self._is_at_head() else 0
        super().data_received(data)
        if not self._is_at_head():
            self._rest()
        elif self._head_bytes > MOST_HEAD_BYTES:
            self.transport.close()
        elif self._head is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _is_at_head(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _rest(self) -> None:
        self._head_bytes = 0
        if self._head is not None:
            self._head.cancel()
            self._head = None


def _listen(address: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"Port {port} of {address} cannot be listened on ({why}): choose another one."
        ) from error
    listening.setblocking(False)  # noqa: FBT003  the socket's own signature
    return listening
