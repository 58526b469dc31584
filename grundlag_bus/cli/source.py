"""Where calls go: a bus by its address, or a registry in this process."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import BusUnreachableError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.adapters import Bus

TOKEN = "GRUNDLAG_TOKEN"  # noqa: S105  the name of the variable that holds it
_CLOSE_WITHIN = 3.0
_CONNECT_WITHIN = 10.0
_TO_SAY_WHY = 1.0
_LAST_PAUSE = 1.2
"""Seconds: no pause between two attempts to connect is longer."""


@dataclass(frozen=True, slots=True)
class Source:
    """Exactly one of `url` and `registry` (as module:name) is given."""

    url: str | None
    namespace: str
    registry: str | None = None

    def __str__(self) -> str:
        """Name the place in a sentence; never with the address, which holds a password."""
        return f"namespace {self.namespace!r}" if self.registry is None else f"registry {self.registry}"

    @property
    def remedy(self) -> str:
        """What to do when there is nothing to call."""
        if self.registry is None:
            return "start a worker with `grundlag-bus worker`, or correct --namespace"
        return "register a provider with actions in it"

    @property
    def _token(self) -> str | None:
        """Take the token for an HTTP host from the environment: a command line is seen by every user of a machine."""
        of_host = self.url is not None and self.url.startswith(("http://", "https://"))
        return os.environ.get(TOKEN) or None if of_host else None

    @asynccontextmanager
    async def open(self, *, within: float | None = None) -> AsyncIterator[Bus]:
        """Connect for as long as it is entered. within: seconds that connecting may take; closing takes few.

        Raises ConfigurationError, BusUnreachableError.
        """
        from grundlag_bus.adapters import connect  # noqa: PLC0415  options.py is loaded for --help, this is not
        from grundlag_bus.cli.registries import load_registry  # noqa: PLC0415  the same

        if self.registry is not None:
            bus = connect(await load_registry(self.registry))
        else:
            refuse_embedded(self.url)
            url = self.url or ""
            hurried = _hurried(url, self.namespace, within)
            bus = hurried or connect(url, namespace=self.namespace, token=self._token)
        async with in_time(None if within is None else within + _TO_SAY_WHY, within):
            await bus.__aenter__()
        try:
            yield bus
        finally:
            with suppress(TimeoutError):  # what the broker did not answer by then it does not need to
                async with asyncio.timeout(_CLOSE_WITHIN if self.registry is None else None):
                    await bus.__aexit__(None, None, None)


@asynccontextmanager
async def in_time(left: float | None, within: float | None) -> AsyncIterator[None]:
    """Raise BusUnreachableError where it takes longer than the seconds that are left, of those that there were."""
    try:
        async with asyncio.timeout(left):
            yield
    except TimeoutError:
        if within is None:
            raise
        raise BusUnreachableError(
            f"The bus did not answer within {within:g} s: give a longer --timeout, or check host and port."
        ) from None


def _hurried(url: str, namespace: str, within: float | None) -> Bus | None:
    """Make a bus that gives up connecting in time to say why; None where there is no hurry, or no RabbitMQ."""
    from grundlag_bus.adapters.bus import TransportBus  # noqa: PLC0415  as above
    from grundlag_bus.transport.rabbitmq import RabbitTransport  # noqa: PLC0415  the same

    if within is None or not url.startswith(("amqp://", "amqps://")):
        return None
    patience = min(max(within - _LAST_PAUSE, within / 2), _CONNECT_WITHIN)
    return TransportBus(RabbitTransport(url, namespace=namespace, connect_timeout=patience))


def refuse_host(url: str | None) -> None:
    """Raise ConfigurationError for an HTTP host, where what has to do with the bus itself is asked for."""
    if url is not None and url.startswith(("http://", "https://")):
        raise ConfigurationError(
            "An HTTP host is called and listened to, and nothing else: give --url amqp://user:password@host, the bus "
            "behind it."
        )


def refuse_embedded(url: str | None) -> None:
    """Raise ConfigurationError for a bus that nobody else could be on."""
    if url is not None and url.partition("://")[0] == "memory":
        raise ConfigurationError(
            "memory:// is a bus inside one process, and nobody else is on it: give --url amqp://user:password@host, "
            "or --registry module:name to run in this process."
        )
