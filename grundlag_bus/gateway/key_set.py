"""The public keys that tokens are signed with: a JWKS, fetched when needed, and again when its keys have changed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import orjson
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWTError

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.gateway.access import is_loopback
from grundlag_bus.gateway.refusing import busy
from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

FRESH_SECONDS = 300.0
"""How long keys are used before they are looked at again: a key that was withdrawn ends then."""
PAUSE_SECONDS = 10.0
"""Between two looks, however many tokens name a key that is not known."""
STALE_SECONDS = 3600.0
"""How long keys are used while the JWKS cannot be had."""
_FETCH_SECONDS = 5.0
_MOST_BYTES = 1024 * 1024
_ASYMMETRIC = ("RSA", "EC", "OKP")

_LOGGER = get_logger("grundlag_bus.gateway")


class KeySet:
    """The keys at an https:// address, or in a file. Raises ConfigurationError for what is neither."""

    def __init__(self, source: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._keys: dict[str | None, PyJWK] = {}
        self._read_at = self._tried_at = -float("inf")
        self._reading = asyncio.Lock()
        parts = urlsplit(source)
        self._remote = parts.scheme in ("http", "https")
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ConfigurationError(f"The JWKS {source} would come unprotected: use https://.")
        if not self._remote:
            self._keys = _read(self._fetch())
            self._read_at = self._tried_at = clock()

    async def find(self, key_id: str | None) -> PyJWK | None:
        """Return the key of this id; without one, the only key. Raises Refused while the keys cannot be had."""
        if self._clock() - self._read_at > FRESH_SECONDS or self._look_up(key_id) is None:
            await self._refresh()
        if self._clock() - self._read_at > STALE_SECONDS:
            raise busy(503, "The keys that tokens are signed with cannot be had now: try again.", after=PAUSE_SECONDS)
        return self._look_up(key_id)

    def _look_up(self, key_id: str | None) -> PyJWK | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def _refresh(self) -> None:
        async with self._reading:
            now = self._clock()
            if now - self._tried_at < PAUSE_SECONDS:
                return
            self._tried_at = now
            try:
                self._keys = _read(await asyncio.to_thread(self._fetch))
                self._read_at = now
            except ConfigurationError as error:
                _LOGGER.warning("jwks_unavailable", reason=str(error))

    def _fetch(self) -> bytes:
        try:
            if not self._remote:
                return Path(self._source).read_bytes()
            with build_opener(_NoRedirects).open(self._source, timeout=_FETCH_SECONDS) as told:
                body: bytes = told.read(_MOST_BYTES + 1)
        except (URLError, OSError, ValueError) as error:
            raise ConfigurationError(f"The JWKS cannot be read from {self._source} ({error}).") from error
        if len(body) > _MOST_BYTES:
            raise ConfigurationError(f"The JWKS at {self._source} is larger than {_MOST_BYTES} bytes.")
        return body


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: the keys are those of the address that was given."""


def _read(body: bytes) -> dict[str | None, PyJWK]:
    """Read the keys that can only check signatures, by their ids."""
    try:
        data = orjson.loads(body)
        told = data["keys"]
        keys = PyJWKSet([key for key in told if key.get("kty") in _ASYMMETRIC and key.get("use", "sig") == "sig"]).keys
    except (PyJWTError, orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"The JWKS has no keys that can check a signature ({error}).") from error
    return {key.key_id: key for key in keys}
