"""Requests about runs to an HTTP host, sent again while the host cannot be reached, and their answers.

Rules:
- What may be done twice is sent again after a lost connection; the rest only where nothing was written.
- The host is tried for a few seconds, as with calls.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from grundlag_bus.adapters.http.exchange import QUIET, REACH_WITHIN
from grundlag_bus.adapters.http.host import read_body
from grundlag_bus.adapters.http.replies import read_response
from grundlag_bus.errors import BusUnreachableError, EnvelopeError, GrundlagError, PublishUnsureError
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.schema.run_failure import error_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from grundlag_bus.adapters.http.host import HttpHost

LARGEST = 64 * 1024 * 1024
PAUSE = 0.5


class RunRequests:
    """Sends them."""

    def __init__(self, host: HttpHost) -> None:
        self._host = host

    async def get(self, url: str, query: Mapping[str, Any] | None = None, *, user_id: str | None) -> Any:
        """Ask for something. Raises what the host raised, and TransportError."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return await self._send("GET", f"{url}?{urlencode(given)}" if given else url, user_id, None, {}, again=True)

    async def post(
        self, url: str, data: Mapping[str, Any], *, user_id: str | None, key: str | None = None, again: bool = True
    ) -> Any:
        """Let something be done. again: whether it may be done twice. Raises what the host raised, TransportError."""
        headers = {} if key is None else {"idempotency-key": key}
        return await self._send("POST", url, user_id, orjson.dumps(data), headers, again=again)

    async def _send(  # noqa: PLR0913  what a request is made of
        self, method: str, url: str, user_id: str | None, body: bytes | None, headers: dict[str, str], *, again: bool
    ) -> Any:
        loop = asyncio.get_running_loop()
        until = loop.time() + REACH_WITHIN
        while True:
            try:
                async with self._host.answer(
                    method, url, user_id=user_id, headers=headers, body=body, quiet=QUIET + 10.0
                ) as response:
                    return await read_answer(response, at=self._host.address)
            except (BusUnreachableError, PublishUnsureError) as error:
                if loop.time() > until or (isinstance(error, PublishUnsureError) and not again):
                    raise
            await asyncio.sleep(PAUSE)


async def read_answer(response: httpx2.Response, *, at: object) -> Any:
    """Read what a host answered. Raises what the host raised, and TransportError for what is no host's."""
    try:
        body = await read_body(response, limit=LARGEST)
        if not response.is_success:
            raise _error(response.status_code, body, at)
        return orjson.loads(body)
    except (EnvelopeError, orjson.JSONDecodeError) as error:
        raise BusUnreachableError(f"What answers at {at} is no host of this version: {error}.") from error


def _error(status: int, body: bytes, at: object) -> GrundlagError:
    failed = read_response(status, body, at=at)
    if isinstance(failed, Failed):
        return error_of(failed)
    return BusUnreachableError(f"What answers at {at} is no host of this version (status {status}).")
