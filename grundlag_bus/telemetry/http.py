"""Answers probes and scrapes over HTTP, from threads of its own: also while the event loop is blocked.

    GET or HEAD   /live      200, or 503: start this process anew       {"ok": false, "reasons": ["..."]}
                  /ready     200, or 503: it does not serve now         the same
                  /metrics   200                                        Prometheus's text format

Anything else is 404. A connection carries one request, and has a few seconds for it.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.logs import get_logger
from grundlag_bus.telemetry.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HealthServer", "Report"]

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104  probes and scrapes come from outside the container
MOST_CONNECTIONS = 32
"""Those beyond are closed unanswered."""

_IDLE_SECONDS = 5.0  # until a connection that says nothing is closed
_MOST_SECONDS = 10.0  # until one is closed whatever it says: a byte now and then holds up no probe
_POLL_SECONDS = 0.2  # until `close` is noticed
_LOGGER = get_logger("grundlag_bus.telemetry")


class HealthServer:
    """Serves one process's health and metrics.

    port: 0 takes any free one; live, ready, metrics: called in a thread of the server, at each request.
    """

    def __init__(
        self,
        port: int,
        *,
        live: Callable[[], Report],
        ready: Callable[[], Report],
        metrics: Callable[[], bytes],
        host: str = ALL_ADDRESSES,
    ) -> None:
        self._asked_port = port
        self._host = host
        self._pages: dict[str, Callable[[], _Page]] = {
            "/live": lambda: _told(live()),
            "/ready": lambda: _told(ready()),
            "/metrics": lambda: (200, "text/plain; version=0.0.4; charset=utf-8", metrics()),
        }
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; before `start`, the one that was asked for."""
        return self._asked_port if self._server is None else self._server.server_address[1]

    def start(self) -> None:
        """Listen and answer. Raises ConfigurationError when that is not possible there."""
        try:
            found = socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, (address, _, *scope) = found[0]
            self._server = _Server(family, (address, self._asked_port, *scope), self._pages)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"Port {self._asked_port} of {self._host} cannot be listened on for health and metrics ({why}): "
                "choose another port (0 takes any free one), and an address of this machine."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="grundlag-health", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and return when every thread has ended, within a moment. Idempotent."""
        server, self._server = self._server, None
        thread, self._thread = self._thread, None
        if server is not None and thread is not None:
            server.shutdown()
            thread.join()
            server.cut()
            server.server_close()


_Page = tuple[int, str, bytes]


def _told(report: Report) -> _Page:
    body = orjson.dumps({"ok": report.ok, "reasons": report.reasons}, option=orjson.OPT_APPEND_NEWLINE)
    return (200 if report.ok else 503), "application/json", body


class _Server(ThreadingHTTPServer):
    """One thread for each connection, ended when the server is closed."""

    daemon_threads = False  # those alone are waited for by `server_close`
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, family: int, address: Any, pages: dict[str, Callable[[], _Page]]) -> None:
        self.address_family = family
        self.pages = pages
        self._connections: dict[Any, float] = {}
        self._changing = threading.Lock()
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        """Bind, without looking up this host's name as the base class does: that may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  the base class's
        with self._changing:
            if len(self._connections) >= MOST_CONNECTIONS:
                return False
            self._connections[request] = time.monotonic()
            return True

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End those that took too long: called at each poll."""
        self.cut(older=_MOST_SECONDS)

    def cut(self, *, older: float = 0.0) -> None:
        """End the connections that there are for so many seconds, so that nobody who is slow is waited for."""
        until = time.monotonic() - older
        with self._changing:
            for connection, since in self._connections.items():
                if since <= until:
                    with suppress(OSError):  # its other end has gone
                        connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002  the base class's
        _LOGGER.debug("probe_gone", address=client_address)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = _IDLE_SECONDS
    server_version = "grundlag-bus"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            page = self.server.pages.get(path, _missing)()
        except Exception:
            _LOGGER.exception("probe_failed", path=path)
            page = (500, "text/plain; charset=utf-8", b"This failed: the log has why.\n")
        status, content_type, body = page
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  the base class looks for this name

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's
        """Keep quiet: a probe comes every few seconds."""


def _missing() -> _Page:
    return 404, "text/plain; charset=utf-8", b"There is /live, /ready and /metrics.\n"
