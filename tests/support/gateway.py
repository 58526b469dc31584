"""The HTTP host of a bus, in this process, on a port of its own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus import GatewayLimits, create_app
from grundlag_bus.gateway.serving import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from grundlag_bus import Authenticator, Bus, Runs, SealKeys
    from grundlag_bus.gateway.host import Host


@dataclass(frozen=True)
class Gateway:
    """url: where it listens."""

    url: str
    host: Host
    server: Server


@asynccontextmanager
async def open_gateway(  # noqa: PLR0913  what a host is made of
    bus: Bus,
    *,
    auth: Authenticator | None = None,
    allow: Mapping[str, Sequence[str]] | None = None,
    cors: Sequence[str] = (),
    limits: GatewayLimits | None = None,
    keys: SealKeys | None = None,
    runs: Runs | None = None,
) -> AsyncIterator[Gateway]:
    """Serve a bus that is not entered yet; at the end what runs is cancelled."""
    host = create_app(bus, auth=auth, allow=allow, cors=cors, limits=limits, keys=keys, runs=runs)
    server = Server(host, address="127.0.0.1", port=0, auth=auth)
    serving = asyncio.create_task(server.serve(), name="gateway")
    starting = asyncio.create_task(server.started.wait())
    try:
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if serving.done():
            await serving
        yield Gateway(server.url, host, server)
    finally:
        await server.drain(0)
        await serving
