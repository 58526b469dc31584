"""Declares what routes need before the first publish to one of them: once on each connection, by one for all who wait.

On the connection that consumes, since the other does nothing while the broker is short of memory or disk.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from aiormq.exceptions import AMQPError

from grundlag_bus.errors import (
    BusUnreachableError,
    PublishExpiredError,
    PublishRefusedError,
    TopologyMismatchError,
    TransportClosedError,
    TransportError,
)
from grundlag_bus.transport.rabbitmq.declare import declare_ladder

if TYPE_CHECKING:
    from grundlag_bus.transport.parts import Ladder
    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.rabbitmq.link import Link

_PAUSE = 0.1


class FirstUse:
    """Knows what was declared on the link's connection: the broker behind the next one may have lost it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._there: Ladder | None = None
        self._on: Connection | None = None
        self._declaring: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Declare again before the next use: somebody seems to have deleted it."""
        self._there = None

    async def ensure(self, ladder: Ladder, *, deadline: float) -> None:
        """Return when the ladder is declared, by this or another.

        Raises PublishExpiredError where it was not by the deadline, PublishRefusedError where it must not be,
        TopologyMismatchError, TransportClosedError.
        """
        while self._there is not ladder or self._on is not self._link.connection:
            if self._declaring is None:
                self._declaring = asyncio.create_task(self._declare(ladder), name="declare the delay ladder")
                self._declaring.add_done_callback(self._declared)
            declaring = self._declaring
            await asyncio.wait({declaring}, timeout=max(deadline - time.time(), 0))
            if not declaring.done():
                raise PublishExpiredError(
                    f"The delay ladder at {self._link.address} was not declared by the deadline: nothing was published."
                )
            if declaring.cancelled():
                raise TransportClosedError(f"The transport to {self._link.address} was closed: nothing was published.")
            error = declaring.exception()
            if isinstance(error, TopologyMismatchError):
                raise TopologyMismatchError(str(error)) from error
            if isinstance(error, BusUnreachableError):
                raise self._refused(str(error)) from error
            if isinstance(error, AMQPError | ConnectionError):  # the connection ended; there will be another
                await asyncio.sleep(_PAUSE)
            elif error is not None:
                raise error

    async def close(self) -> None:
        """Stop declaring; who waits for it hears that the transport is closed."""
        if self._declaring is not None:
            self._declaring.cancel()
            await asyncio.wait({self._declaring})

    async def _declare(self, ladder: Ladder) -> None:
        connection = await self._link.up()
        await declare_ladder(connection, ladder)
        self._there, self._on = ladder, connection

    def _declared(self, declaring: asyncio.Task[None]) -> None:
        self._declaring = None
        if not declaring.cancelled():
            declaring.exception()  # seen, also where nobody waits any more

    def _refused(self, why: str) -> TransportError:
        return PublishRefusedError(f"Nothing was published to the delay ladder at {self._link.address}: {why}.")
