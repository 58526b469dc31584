"""The queue of a subscription: declared, found again after an outage, bound while it is consumed, then deleted.

A queue that was found missing counts as renewed until it is consumed, whoever made it meanwhile. Its bindings are made
again from time to time: an exchange that somebody deleted and somebody else declared again has lost them, and nothing
tells of that.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from aiormq.exceptions import AMQPError

from grundlag_bus.errors import GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.transport.rabbitmq.declare import bind_queue, declare_queue, delete_queue, exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.topology import Queue

_log = get_logger(__name__)
BIND_AGAIN = 30.0
"""Seconds from one time that the bindings are made to the next."""


class KeptQueue:
    """What one subscription knows of its queue. renewed: called when it had to be made anew."""

    def __init__(self, queue: Queue, renewed: Callable[[], None] | None) -> None:
        self.name = queue.name
        self._queue = queue
        self._renewed = renewed
        self._seen = False
        self._was_gone = False
        self._bound_at = 0.0

    async def look(self, connection: Connection) -> None:
        """Find out whether it is still there. Raises BusUnreachableError."""
        if self._seen:
            self._was_gone = self._was_gone or not await exists(connection, self.name)

    async def have(self, connection: Connection) -> None:
        """Declare it where it may not be there, and bind it. Raises BusUnreachableError, TopologyMismatchError."""
        if self._was_gone or not self._seen:
            await declare_queue(connection, self._queue)
        else:
            await bind_queue(connection, self._queue)  # whoever made it may not have come to that
        self._bound_at = time.monotonic()

    async def bind_again(self, connection: Connection) -> None:
        """Make its bindings again where that was long ago. Raises BusUnreachableError."""
        if time.monotonic() - self._bound_at > BIND_AGAIN:
            await bind_queue(connection, self._queue)
            self._bound_at = time.monotonic()

    def consumed(self) -> None:
        """Take note that it is consumed."""
        self._seen = True
        if self._was_gone:
            self._was_gone = False
            _log.warning("bus.queue_renewed", queue=self.name)
            if self._renewed is not None:
                self._renewed()

    async def end(self, connection: Connection | None) -> None:
        """Delete what passes with its subscription. Where that cannot be, the broker lets it expire."""
        if self._queue.passing and self._seen and connection is not None:
            with suppress(AMQPError, ConnectionError, GrundlagError):
                await delete_queue(connection, self.name)
