"""Ask every worker to cancel a call: those that run now, and by a stream those that start within a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError, UnroutableError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.control import Cancel
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.beside import Beside

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Transport

SEND_WITHIN = 30.0
"""Seconds that sending is tried for, while the broker is away."""
CLOSE_WITHIN = 2.0
"""Seconds that a bus which is closed waits for what it has yet to send."""

_LOGGER = get_logger("grundlag_bus.adapters")


class Cancels:
    """Sends cancellations in the background."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Where the loop ends under a bus that was left open, calls are cancelled when nothing can be sent any more.
        self._sending = Beside(quiet=True)

    def send(self, call_id: str) -> None:
        """Begin to send; that it does not arrive is logged."""
        self._sending.do(self._send(call_id))

    async def close(self) -> None:
        """Wait a little for what is on its way."""
        await self._sending.end(within=CLOSE_WITHIN)

    async def _send(self, call_id: str) -> None:
        transport = self._transport
        now = transport.now()
        message = Message(Cancel(call_id, now).encode(), "cancel", correlation_id=call_id)
        route = transport.topology.control_route("cancel")
        try:
            try:
                await transport.publish(route, message, deadline=now + SEND_WITHIN)
            except UnroutableError:
                # No worker has ever been there to hear of it, and one may be when a delayed call is due.
                await transport.read(transport.topology.cancels)  # which declares it
                await transport.publish(route, message, deadline=now + SEND_WITHIN)
        except GrundlagError as error:
            _LOGGER.warning("cancel_not_sent", call_id=call_id, reason=str(error))
