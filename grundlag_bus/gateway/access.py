"""Who calls: from the headers of a request to a user id.

Rules:
- With an authenticator the token decides, and whatever else a request claims must agree with it.
- Without one the host is for programs of this machine: the address that is listened on and the name that was asked for
  are loopback's, so that no page in a browser reaches it by a name of its own. The user id is then a claim.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from grundlag_bus.errors import ConfigurationError, ForbiddenError, UnauthenticatedError
from grundlag_bus.gateway.refusing import CLOSE, Refused
from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    from starlette.requests import Request

LONGEST_USER_ID = 256
LONGEST_TOKEN = 8192
MOST_HEAD_BYTES = 32 * 1024


class Authenticator(Protocol):
    """Knows the users by their bearer tokens."""

    async def user_id(self, token: str) -> str:
        """Return whose token it is. Raises UnauthenticatedError."""


class Access:
    """auth: None where nobody is asked for a token."""

    def __init__(self, auth: Authenticator | None) -> None:
        self._auth = auth

    @property
    def asks_for_tokens(self) -> bool:
        return self._auth is not None

    async def user_id(self, request: Request) -> str | None:
        """Return on whose behalf a request is made. Raises UnauthenticatedError, ForbiddenError, Refused."""
        if sum(len(name) + len(value) for name, value in request.headers.raw) > MOST_HEAD_BYTES:
            raise Refused(431, Failed("input_invalid", f"The headers are larger than {MOST_HEAD_BYTES} bytes."), CLOSE)
        claimed = _claimed(request)
        if self._auth is None:
            _ensure_local(request)
            return None if claimed is None else _checked(claimed)
        known = _checked(await self._auth.user_id(_token(request)))
        if claimed is not None and claimed != known:
            raise ForbiddenError(
                "The request names another user than its token does: leave that out (X-User-Id; user_id= in Python, "
                "--user on the command line), or send the token of that user."
            )
        return known


def is_user_id(value: object) -> bool:
    """Whether it can be a user id: text of 1 to 256 printable characters."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_USER_ID and value.isprintable()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there, or what asks for this name."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def ensure_guarded(host: str, auth: Authenticator | None) -> None:
    """Raise ConfigurationError where everybody could call on everybody's behalf."""
    if auth is None and not is_loopback(host):
        raise ConfigurationError(
            f"Without authentication the host listens on loopback alone, and {host} is not: give it tokens or a JWKS, "
            "or listen on 127.0.0.1."
        )


def _checked(user_id: str) -> str:
    if not is_user_id(user_id):
        raise UnauthenticatedError(f"A user id is 1 to {LONGEST_USER_ID} printable characters, and this one is not.")
    return user_id


def _claimed(request: Request) -> str | None:
    told = request.headers.get("x-user-id")
    return None if told is None else unquote(told)


def _token(request: Request) -> str:
    given = request.headers.getlist("authorization")
    if len(given) == 1:
        scheme, _, token = given[0].partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and 0 < len(token) <= LONGEST_TOKEN:
            return token
    raise UnauthenticatedError("This host asks who calls: send one header Authorization: Bearer TOKEN.")


def _ensure_local(request: Request) -> None:
    server = request.scope.get("server")
    listens = server is None or is_loopback(server[0])
    if not (listens and is_loopback(_name(request.headers.get("host", "localhost")))):
        raise ForbiddenError("This host asks nobody for a token, and so answers this machine alone: ask for localhost.")


def _name(host: str) -> str:
    """Return the name of a Host header, without its port."""
    return host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
