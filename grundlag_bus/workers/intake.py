"""Where a worker's calls come from: one subscription for each lane of each provider that it serves."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.base import Delivery, Subscription, Transport
    from grundlag_bus.workers.share import Place, Share


class Intake:
    """Takes deliveries from every place of a share, as many at once as it runs.

    receive: called with provider id, lane and delivery; renewed: called when a queue had to be made anew.
    """

    def __init__(
        self,
        transport: Transport,
        share: Share,
        *,
        receive: Callable[[str, str, Delivery], None],
        renewed: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._share = share
        self._receive = receive
        self._renewed = renewed
        self._subscriptions: dict[Place, Subscription] = {}
        self._paused: set[str] = set()

    async def open(self) -> None:
        """Subscribe to every queue that is not subscribed to. Raises as `Transport.subscribe` does."""
        for place in self._share.places:
            if place not in self._subscriptions:
                self._subscriptions[place] = subscription = await self._transport.subscribe(
                    self._transport.topology.call_queue(place.provider_id, place.lane_id),
                    partial(self._receive, place.provider_id, place.lane_id),
                    prefetch=place.concurrency,
                    renewed=self._renewed,
                    consumer_timeout=place.lane.consumer_timeout,
                )
                if self._paused:
                    await subscription.pause()

    async def pause(self, why: str) -> None:
        """Take nothing for now; what is in hand can still be settled. why: as told to `resume`."""
        self._paused.add(why)
        await asyncio.gather(*(subscription.pause() for subscription in self._subscriptions.values()))

    def resume(self, why: str) -> None:
        """Take again after `pause`, unless it was told for another reason too. What is stopped stays so."""
        self._paused.discard(why)
        if not self._paused:
            for subscription in self._subscriptions.values():
                subscription.resume()

    async def stop(self) -> None:
        """Take nothing more; what is in hand can still be settled."""
        await asyncio.gather(*(subscription.stop() for subscription in self._subscriptions.values()))

    async def close(self) -> None:
        """Give back what is in hand and not settled."""
        subscriptions, self._subscriptions = list(self._subscriptions.values()), {}
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))
