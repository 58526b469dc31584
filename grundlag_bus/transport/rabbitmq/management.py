"""RabbitMQ's management API, read only: what AMQP does not tell."""

from __future__ import annotations

import asyncio
import base64
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

import orjson

from grundlag_bus.errors import BusUnreachableError, ConfigurationError
from grundlag_bus.transport.rabbitmq.credentials import login

if TYPE_CHECKING:
    import ssl

    from grundlag_bus.transport.rabbitmq.address import Address

_TIMEOUT = 5.0
_MOST_BYTES = 32 * 1024 * 1024
_PORTS = {"http": 15672, "https": 15671}


class Management:
    """The API at `url`, asked as this user. A password goes out in clear text only where `url` says http."""

    def __init__(self, url: str, vhost: str, login: tuple[str, str], context: ssl.SSLContext | None) -> None:
        self.url = url
        self._vhost = quote(vhost, safe="")
        self._authorization = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        handlers = [ProxyHandler({}), _NoRedirects(), *([HTTPSHandler(context=context)] if context else [])]
        self._opener = build_opener(*handlers)

    @classmethod
    async def at(cls, address: Address, url: str | None = None) -> Management:
        """Make one for a broker's address; url: where it is, if not at the usual port of the same host.

        It may hold user and password, where they are others than the broker's. Raises ConfigurationError.
        """
        user, password = await login(address, _TIMEOUT)
        context = await asyncio.to_thread(address.ssl_context) if address.tls else None
        if url is None:
            scheme = "https" if address.tls else "http"
            host = f"[{address.host}]" if ":" in address.host else address.host
            return cls(f"{scheme}://{host}:{_PORTS[scheme]}", address.vhost, (user, password), context)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            port, parts = None, urlsplit("")
        if parts.scheme not in _PORTS or parts.hostname is None:
            raise ConfigurationError("The address of the management API cannot be read: give http(s)://host:port.")
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        where = f"{parts.scheme}://{host}:{port or _PORTS[parts.scheme]}{parts.path.rstrip('/')}"
        return cls(where, address.vhost, (user, password), context)

    async def policies(self) -> list[dict[str, Any]]:
        """Return the vhost's policies, and the operator's with `operator` true."""
        own = await self._list(f"/api/policies/{self._vhost}")
        operators = await self._list(f"/api/operator-policies/{self._vhost}")
        return [*own, *({**policy, "operator": True} for policy in operators)]

    async def nodes(self) -> list[dict[str, Any]]:
        return await self._list("/api/nodes")

    async def alarms(self) -> list[str]:
        """Return what each node is short of: this is of now, while the figures of `nodes` are seconds old."""
        told = await self.get("/api/health/checks/alarms")
        alarms = self._objects(told.get("alarms", []) if isinstance(told, dict) else told)
        return [f"{alarm.get('resource')} on {alarm.get('node')}" for alarm in alarms]

    async def get(self, path: str) -> Any:
        """Return what is at a path. Raises BusUnreachableError."""
        return await asyncio.to_thread(self._get, path)

    async def _list(self, path: str) -> list[dict[str, Any]]:
        return self._objects(await self.get(path))

    def _objects(self, told: Any) -> list[dict[str, Any]]:
        if isinstance(told, list) and all(isinstance(one, dict) for one in told):
            return told
        raise self._is_another()

    def _is_another(self) -> BusUnreachableError:
        return BusUnreachableError(f"what answers at {self.url} is no management API")

    def _get(self, path: str) -> Any:
        # Made for http and https alone by `at`.
        request = Request(self.url + path, headers={"Authorization": self._authorization})  # noqa: S310  see above
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as response:
                body = response.read(_MOST_BYTES)
        except HTTPError as error:
            with error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise BusUnreachableError(f"{self.url} answers {error.code} to {path}") from error
                body = error.read(_MOST_BYTES)  # a health check that fails says why
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise BusUnreachableError(f"nothing answers at {self.url} ({reason})") from error
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise self._is_another() from error


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: the password is for nobody else."""

    def redirect_request(self, *_: Any) -> None:
        return None
