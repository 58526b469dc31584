"""Requests to an HTTP host. What the client library raises is translated here.

Rules:
- Nothing is read from the environment: a proxy and certificates are given.
- Redirects are not followed, and cookies not kept: a token goes to the address that was given and nowhere else.
- Calls have connections of their own, each one for as long as it lasts; a cancellation never waits behind them.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from grundlag_bus._version import __version__
from grundlag_bus.adapters.http.bearer import check_token, token_for
from grundlag_bus.errors import BusUnreachableError, EnvelopeError, PublishUnsureError, TransportClosedError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from grundlag_bus.adapters.http.address import HostAddress
    from grundlag_bus.adapters.http.bearer import Token

CONNECT_WITHIN = 5.0
"""Seconds that one attempt to connect may take."""
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


class HttpHost:
    """A host and how it is reached. connections: how many calls may be on their way at once; others wait their turn."""

    def __init__(
        self,
        address: HostAddress,
        *,
        token: Token | None,
        proxy: str | None,
        tls: ssl.SSLContext | None,
        connections: int,
    ) -> None:
        self.address = address
        self._token = check_token(token) if isinstance(token, str) else token
        self._proxy = proxy
        self._tls = tls
        self._connections = connections
        self._calls: httpx2.AsyncClient | None = None
        self._beside: httpx2.AsyncClient | None = None

    @property
    def is_open(self) -> bool:
        return self._calls is not None

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def open(self) -> None:
        """Make the pools of connections; nothing is sent. Idempotent."""
        if self._calls is None:
            if self._tls is None and self.address.is_encrypted:
                self._tls = httpx2.create_ssl_context(trust_env=False)
            self._calls, self._beside = self._client(self._connections), self._client(None)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        clients, self._calls, self._beside = (self._calls, self._beside), None, None
        for client in clients:
            if client is not None:
                await client.aclose()

    def _client(self, connections: int | None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=self._tls or False,  # False: nothing is encrypted there, and no redirect leads elsewhere
            trust_env=False,
            proxy=self._proxy,
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=20, keepalive_expiry=15),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            headers={"user-agent": f"grundlag-bus/{__version__}", "accept-encoding": "identity"},
        )

    @asynccontextmanager
    async def answer(  # noqa: PLR0913  what a request is made of
        self,
        method: str,
        url: str,
        *,
        user_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        quiet: float,
        is_call: bool = False,
        written: Callable[[], object] | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request, and give the response while it is entered, with its body unread.

        quiet: seconds that the host may say nothing; written: called when the first byte is about to be.
        Raises ConfigurationError (no token could be had), TransportClosedError, BusUnreachableError (nothing was
        written) and PublishUnsureError (it was, and the connection ended); the last also while the body is read.
        """
        client = self._calls if is_call else self._beside
        if client is None:
            raise TransportClosedError("The bus is not open: call tools inside `async with connect(...) as bus`.")
        token = await token_for(self._token, user_id)
        sent = dict(headers or {})
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        if user_id is not None:
            sent["x-user-id"] = quote(user_id, safe="")
        if body is not None:
            sent["content-type"] = "application/json"
        request = client.build_request(
            method,
            url,
            headers=sent,
            content=body,
            timeout=httpx2.Timeout(connect=CONNECT_WITHIN, read=quiet, write=30.0, pool=None),
            extensions={} if written is None else {"trace": _tracing(written)},
        )
        try:
            response = await client.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except _NOT_SENT as error:
            raise BusUnreachableError(
                f"The host {self.address} cannot be reached ({_reason(error)}): see whether it runs there "
                "(`grundlag-bus serve`), and whether host and port are right."
            ) from error
        except httpx2.HTTPError as error:
            raise PublishUnsureError(f"the connection to {self.address} ended ({_reason(error)})") from error


def _tracing(written: Callable[[], object]) -> Callable[[str, Any], Awaitable[None]]:
    async def trace(name: str, _: Any) -> None:
        if name.endswith("send_request_headers.started"):
            written()

    return trace


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


async def read_body(response: httpx2.Response, *, limit: int) -> bytes:
    """Read the whole body. Raises EnvelopeError for more than `limit` bytes."""
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > limit:
            raise EnvelopeError(f"the body has more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)
