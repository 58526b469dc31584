"""Where a broker is, in parts, so that no part needs escaping; and no text made of it shows the password."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from grundlag_bus.errors import ConfigurationError

Credentials = Callable[[], tuple[str, str] | Awaitable[tuple[str, str]]]
"""Returns user and password. Called for each attempt to connect, in a thread unless it is a coroutine function."""

_PORTS = {"amqp": 5672, "amqps": 5671}
_FILES = {
    "cacertfile": "ca_file",
    "certfile": "certificate_file",
    "keyfile": "key_file",
    "password_file": "password_file",
}
_VERIFY = {"verify_peer": True, "verify_none": False}


@dataclass(frozen=True, slots=True)
class Address:
    """A broker's address and who connects to it. `port` None is the scheme's own: 5672, or 5671 with `tls`.

    With `tls` the broker's certificate is verified against the system's authorities, or against `ca_file`, unless
    `verify` is False. `certificate_file` and `key_file` are this client's own, where the broker asks for them.

    `password_file` holds the password instead and is read at each attempt to connect, without the newline at its end;
    `credentials` gives user and password instead, at each attempt.
    """

    host: str = "localhost"
    port: int | None = None
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    tls: bool = False
    verify: bool = True
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    password_file: str | None = None
    credentials: Credentials | None = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read ``amqp[s]://user:password@host:port/vhost`` with RabbitMQ's own query parameters for TLS.

        ``password_file`` is a parameter too. Parts are percent-decoded, so ``%2F`` is the vhost ``/``; no path is that
        vhost as well.
        Raises ConfigurationError, whose text never holds the URL.
        """
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            raise _unusable() from None
        if parts.scheme not in _PORTS:
            raise ConfigurationError(f"The scheme {parts.scheme!r} is no RabbitMQ address: use amqp:// or amqps://.")
        options = _options(parts)
        if parts.password is not None and "password_file" in options:
            raise ConfigurationError("The broker's address has a password and a password_file: give one of them.")
        if host is None or parts.fragment or ("@" in parts.path and "@" not in parts.netloc):
            raise _unusable()
        return cls(
            host=host,
            port=port,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password) if parts.password is not None else "guest",
            vhost=unquote(parts.path[1:]) or "/",
            tls=parts.scheme == "amqps",
            **options,
        )

    @property
    def scheme(self) -> str:
        return "amqps" if self.tls else "amqp"

    @property
    def port_number(self) -> int:
        return _PORTS[self.scheme] if self.port is None else self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = "" if self.credentials is not None else f"{quote(self.user)}@"
        return f"{self.scheme}://{user}{host}:{self.port_number}/{quote(self.vhost, safe='')}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make the context for a TLS connection, reading the files (blocks). Raises ConfigurationError."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(
                f"The certificate files for {self} cannot be used ({error}): "
                "check ca_file, certificate_file and key_file."
            ) from error
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _unusable() -> ConfigurationError:
    return ConfigurationError(
        "The address of the broker cannot be read: it is amqp://user:password@host:port/vhost, and '@', '/', ':', '#' "
        "or '%' inside a part are written as %40, %2F, %3A, %23 and %25, or the parts are given one by one as "
        "Address(...)."
    )


def _options(parts: SplitResult) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in _FILES:
            options[_FILES[name]] = value
        elif name == "verify" and value in _VERIFY:
            options["verify"] = _VERIFY[value]
        else:
            known = ", ".join((*_FILES, "verify=verify_peer", "verify=verify_none"))
            raise ConfigurationError(f"The broker's address has the unknown parameter {name!r}: known are {known}.")
    return options
