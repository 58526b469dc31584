"""Start the HTTP host that `serve` asks for, and end it by signals."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.adapters import connect
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.registries import load_registry
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_embedded
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.gateway.allowing import AllowLists
from grundlag_bus.gateway.host import create_app
from grundlag_bus.gateway.serving import Server
from grundlag_bus.gateway.signed import JwtTokens
from grundlag_bus.gateway.tokens import StaticTokens
from grundlag_bus.providers.seal import SealKeys

if TYPE_CHECKING:
    import signal
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grundlag_bus.adapters import Bus
    from grundlag_bus.cli.source import Source
    from grundlag_bus.gateway.access import Authenticator
    from grundlag_bus.gateway.host import Host

_LOGGER = structlog.get_logger("grundlag_bus.cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What the command line asks of a host."""

    source: Source
    host: str
    port: int
    tokens: Path | None
    jwks: str | None
    audience: str | None
    issuer: str | None
    allow: Path | None
    cors: tuple[str, ...]
    store: str | None
    keys_file: Path | None
    grace: float

    def auth(self) -> Authenticator | None:
        """Make what knows the users. Raises ConfigurationError."""
        if self.jwks is None:
            if self.audience is not None or self.issuer is not None:
                raise ConfigurationError("--audience and --issuer are about tokens by a JWKS: add --jwks.")
            return None if self.tokens is None else StaticTokens.load(self.tokens)
        if self.tokens is not None:
            raise ConfigurationError("Both --tokens and --jwks are given: use one of them.")
        if self.audience is None or self.issuer is None:
            raise ConfigurationError("--jwks needs --audience and --issuer, or any token of its issuer would do.")
        return JwtTokens(self.jwks, audience=self.audience, issuer=self.issuer)

    @asynccontextmanager
    async def app(self, auth: Authenticator | None) -> AsyncIterator[Host]:
        """Make the application, and open the store of its runs meanwhile. Raises ConfigurationError."""
        allow = None if self.allow is None else AllowLists.load(self.allow)
        if self.store is not None and self.source.registry is not None:
            raise ConfigurationError("Runs go on after their process, on a bus: give --url with --store, no registry.")
        bus, keys = await self._bus()
        if self.store is None:
            yield create_app(bus, auth=auth, allow=allow, cors=self.cors, keys=keys)
            return
        from grundlag_bus.durable import Runs  # noqa: PLC0415  slow to import, and often not needed
        from grundlag_bus.store.store import Store  # noqa: PLC0415  the same

        async with await Store.open(self.store) as store:
            yield create_app(bus, auth=auth, allow=allow, cors=self.cors, keys=keys, runs=Runs(store, bus))

    async def _bus(self) -> tuple[Bus, SealKeys | None]:
        """Make the bus, and find the keys that are shared with others."""
        keys = None if self.keys_file is None else SealKeys.load(self.keys_file)
        if self.source.registry is None:
            refuse_embedded(self.source.url)
            return connect(self.source.url or "", namespace=self.source.namespace), keys
        registry = await load_registry(self.source.registry)
        if keys is not None:
            registry.share_keys(keys)
        return connect(registry, namespace=self.source.namespace), registry.keys if registry.shared_keys else None


def serve_over_http(options: ServeOptions, *, level: str) -> int:
    """Serve until a signal. Raises ConfigurationError, TransportError."""
    return run(_serve(options), level=level)


async def _serve(options: ServeOptions) -> int:
    auth = options.auth()
    async with options.app(auth) as host:
        return await _serve_host(options, host, auth)


async def _serve_host(options: ServeOptions, host: Host, auth: Authenticator | None) -> int:
    server = Server(host, address=options.host, port=options.port, auth=auth)
    received: list[signal.Signals] = []
    ending: set[asyncio.Task[None]] = set()

    def receive(which: signal.Signals) -> None:
        received.append(which)
        if len(received) == 1:
            _LOGGER.info("draining", signal=which.name, calls=host.calls.in_flight)
            ending.add(asyncio.get_running_loop().create_task(server.drain(options.grace)))
        else:
            _LOGGER.warning("aborting", signal=which.name, calls=host.calls.in_flight)
            server.abort()

    on_signals(receive)
    serving = asyncio.get_running_loop().create_task(server.serve())
    starting = asyncio.get_running_loop().create_task(server.started.wait())
    await asyncio.wait((serving, starting), return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    if server.started.is_set():
        _LOGGER.info("serving", url=server.url, tokens=host.access.asks_for_tokens, runs=host.runs is not None)
    await serving
    for each in ending:
        each.cancel()
    if len(received) > 1:
        return 128 + received[-1]
    _LOGGER.info("stopped")
    return Exit.COMPLETED
