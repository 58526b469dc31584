"""What a worker does with a call of an action that it lacks: while a deploy rolls, another one has it.

What is announced is read again after a few seconds, and not for each call. That nobody announced an action is believed
of a reading alone which began after the call came here: its caller may have seen what was announced a moment ago.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.disposition import Again, End, of_absent
from grundlag_bus.schema.manifest import Announcement, current

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Transport

BETWEEN_READINGS = 2.0
"""Seconds from the beginning of one reading to that of the next."""

_LOGGER = get_logger("grundlag_bus.workers")


class Absent:
    """Decides of such calls by what is announced on the bus."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._announced: dict[str, Announcement] | None = {}
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    async def decide(self, call: Call) -> End | Again:
        """Say what is to become of the call. Raises TransportClosedError."""
        announced = await self._is_announced(call)
        return of_absent(call, announced=announced, now=self._transport.now())

    async def _is_announced(self, call: Call) -> bool:
        clock = asyncio.get_running_loop().time
        asked = clock()
        if asked < self._read_at + BETWEEN_READINGS and self._knows(call):
            return True
        async with self._reading:
            if self._read_at < asked:
                await asyncio.sleep(self._read_at + BETWEEN_READINGS - clock())
                begun = clock()
                try:
                    self._announced = current(await self._transport.read(self._transport.topology.manifests))
                except TransportClosedError:
                    raise
                except GrundlagError as error:
                    # Nobody knows. Calls wait meanwhile, as they do for a worker that has their action.
                    _LOGGER.warning("announcements_not_read", reason=str(error), call_id=call.call_id)
                    self._announced = None
                self._read_at = begun
        return self._knows(call)

    def _knows(self, call: Call) -> bool:
        if self._announced is None:
            return True
        told = self._announced.get(call.provider_id)
        return (
            told is not None
            and told.provider is not None
            and any(action.id == call.action_id for action in told.provider.actions)
        )
