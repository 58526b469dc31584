"""Where calls go: a bus by its address, or a registry in this process."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import BusUnreachableError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.adapters import Bus


TOKEN = "GRUNDLAG_TOKEN"  # noqa: S105  the name of the variable that holds it


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
        """Connect for as long as it is entered. within: seconds that connecting may take.

        Raises ConfigurationError, BusUnreachableError.
        """
        from grundlag_bus.adapters import connect  # noqa: PLC0415  options.py is loaded for --help, this is not
        from grundlag_bus.cli.registries import load_registry  # noqa: PLC0415  the same

        if self.registry is not None:
            bus = connect(await load_registry(self.registry))
        else:
            refuse_embedded(self.url)
            bus = connect(self.url or "", namespace=self.namespace, token=self._token)
        try:
            async with asyncio.timeout(within):
                await bus.__aenter__()
        except TimeoutError:
            raise BusUnreachableError(
                f"The bus did not answer within {within:g} s: give a longer --timeout, or check host and port."
            ) from None
        try:
            yield bus
        finally:
            await bus.__aexit__(None, None, None)


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
