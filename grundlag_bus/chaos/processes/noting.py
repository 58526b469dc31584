"""A transport that notes what the broker confirmed, and where replies come to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from grundlag_bus.chaos.history import Acknowledged, Mailbox
from grundlag_bus.transport.rabbitmq import RabbitTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.chaos.history import Record
    from grundlag_bus.transport.base import Delivery, Message, Subscription
    from grundlag_bus.transport.topology import Queue, Route


class NotingTransport(RabbitTransport):
    """RabbitMQ, as a caller of the suite sees it."""

    def __init__(self, url: str, *, namespace: str, note: Callable[[Record], None]) -> None:
        super().__init__(url, namespace=namespace)
        self._note = note

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        """See `Transport.publish`."""
        await super().publish(route, message, deadline=deadline, written=written)
        if message.type == "call" and message.correlation_id is not None:
            self._note(Acknowledged(time.monotonic(), message.correlation_id))

    async def subscribe(
        self,
        queue: Queue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        renewed: Callable[[], None] | None = None,
        consumer_timeout: float | None = None,
    ) -> Subscription:
        """See `Transport.subscribe`."""
        self._note(Mailbox(time.monotonic(), queue.name))
        return await super().subscribe(
            queue, receive, prefetch=prefetch, renewed=renewed, consumer_timeout=consumer_timeout
        )
