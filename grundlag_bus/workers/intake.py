"""Where a worker's calls come from: one subscription for each lane of each provider."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Delivery, Subscription, Transport


class Intake:
    """Takes deliveries for every action of a registry, `prefetch` at once from each queue.

    receive: called with provider id, lane and delivery; renewed: called when a queue had to be made anew.
    """

    def __init__(
        self,
        transport: Transport,
        registry: ProviderRegistry,
        *,
        prefetch: int,
        receive: Callable[[str, str, Delivery], None],
        renewed: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._prefetch = prefetch
        self._receive = receive
        self._renewed = renewed
        self._subscriptions: dict[tuple[str, str], Subscription] = {}

    async def open(self) -> None:
        """Subscribe to every queue that is not subscribed to. Raises as `Transport.subscribe` does."""
        for provider in self._registry.providers.values():
            for lane in provider.lanes:
                if (provider.id, lane) not in self._subscriptions:
                    self._subscriptions[provider.id, lane] = await self._transport.subscribe(
                        self._transport.topology.call_queue(provider.id, lane),
                        partial(self._receive, provider.id, lane),
                        prefetch=self._prefetch,
                        renewed=self._renewed,
                    )

    async def stop(self) -> None:
        """Take nothing more; what is in hand can still be settled."""
        await asyncio.gather(*(subscription.stop() for subscription in self._subscriptions.values()))

    async def close(self) -> None:
        """Give back what is in hand and not settled."""
        subscriptions, self._subscriptions = list(self._subscriptions.values()), {}
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))
