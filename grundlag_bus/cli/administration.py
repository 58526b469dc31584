"""An operator's way to a bus: nothing is declared there, so that a mistyped namespace leaves no trace."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.cli.source import refuse_embedded, refuse_host
from grundlag_bus.errors import BusUnreachableError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.transport import Administration
    from grundlag_bus.transport.topology import Topology


def address_of(url: str | None) -> str:
    """Return the bus's address. Raises ConfigurationError where there is none to administer."""
    if url is None:
        raise ConfigurationError(
            "No bus is given: add --url amqp://user:password@host:port/vhost, or set GRUNDLAG_URL."
        )
    refuse_embedded(url)
    refuse_host(url)
    return url


@asynccontextmanager
async def administer(url: str) -> AsyncIterator[Administration]:
    """Connect for as long as it is entered; what is still held then is given back.

    Raises ConfigurationError, BusUnreachableError.
    """
    from grundlag_bus.transport.rabbitmq import RabbitAdministration  # noqa: PLC0415  its client is slow to import

    administration = await RabbitAdministration.open(url)
    try:
        yield administration
    finally:
        await administration.close()


async def check_namespace(administration: Administration, topology: Topology) -> None:
    """Raise ConfigurationError where nobody ever connected under this namespace."""
    try:
        there = await administration.count(topology.dead_queue.name)
    except BusUnreachableError:  # who may not look may be right all the same
        return
    if there is None:
        raise ConfigurationError(
            f"There is no namespace {topology.namespace!r} on this bus: correct --namespace (or GRUNDLAG_NAMESPACE)."
        )
