"""Where runs are: a store, and the bus that their calls go to."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.cli.options import STORE, URL
from grundlag_bus.cli.source import Source, refuse_embedded, refuse_host
from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.adapters import Bus
    from grundlag_bus.durable import Runs


@dataclass(frozen=True, slots=True)
class Place:
    """source: None for what has to do with the store alone."""

    store: str
    source: Source | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Runs]:
        """Open runs that hosts elsewhere drive. Raises ConfigurationError, BusUnreachableError."""
        async with self.open_with_bus() as (runs, _):
            yield runs

    @asynccontextmanager
    async def open_with_bus(self, *, without_ledger: bool = False) -> AsyncIterator[tuple[Runs, Bus]]:
        """See `open`; with the bus, which is none that anybody is on where there is no source."""
        from grundlag_bus.adapters import connect  # noqa: PLC0415  slow to import
        from grundlag_bus.durable import Runs  # noqa: PLC0415  the same
        from grundlag_bus.store.store import Store  # noqa: PLC0415  the same

        _ensure_there(self.store)
        async with AsyncExitStack() as opened:
            store = await opened.enter_async_context(await Store.open(self.store))
            if self.source is None:
                bus = connect("memory://")  # and is not opened
            else:
                bus = await opened.enter_async_context(self.source.open())
            yield await opened.enter_async_context(Runs(store, bus, drives=False, without_ledger=without_ledger)), bus


def choose_place(store: str | None, *, url: str | None, namespace: str) -> Place:
    """Decide where runs are that have to do with a bus. Raises ConfigurationError."""
    if url is None:
        raise ConfigurationError(
            f"Runs need a bus: add --url amqp://user:password@host:port/vhost, or set {URL}; and a host of them."
        )
    refuse_embedded(url)
    refuse_host(url)
    return Place(store_of(store), Source(url, namespace))


def store_of(store: str | None) -> str:
    """Return the address of the store. Raises ConfigurationError where there is none."""
    if not store:
        raise ConfigurationError(
            f"Runs are in a store: add --store sqlite:///FILE or postgresql://user:password@host/name, or set {STORE}."
        )
    return store


def _ensure_there(url: str) -> None:
    """Raise ConfigurationError for a file that is not there: a mistyped name is no new store."""
    kind, found, rest = url.partition(":///")
    file = Path(rest.partition("?")[0])
    if found and kind.partition("+")[0] == "sqlite" and rest and not file.exists():
        raise ConfigurationError(
            f"There is no store in {file.absolute()}: correct --store, or start `grundlag-bus host` with it, which "
            "makes one."
        )
