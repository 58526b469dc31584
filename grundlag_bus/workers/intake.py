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
        self._paused: dict[Place, set[str]] = {place: set() for place in share.places}

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
                if self._paused[place]:
                    await subscription.pause()

    async def pause(self, why: str, *places: Place) -> None:
        """Take nothing for now, from these places or from all; what is in hand can still be settled.

        why: as told to `resume`.
        """
        chosen = places or self._share.places
        for place in chosen:
            self._paused[place].add(why)
        there = [self._subscriptions[place] for place in chosen if place in self._subscriptions]
        await asyncio.gather(*(subscription.pause() for subscription in there))

    def resume(self, why: str, *places: Place) -> None:
        """Take again after `pause`, unless it was told for another reason too. What is stopped stays so."""
        for place in places or self._share.places:
            self._paused[place].discard(why)
            if not self._paused[place] and place in self._subscriptions:
                self._subscriptions[place].resume()

    async def stop(self) -> None:
        """Take nothing more; what is in hand can still be settled."""
        await asyncio.gather(*(subscription.stop() for subscription in self._subscriptions.values()))

    async def close(self) -> None:
        """Give back what is in hand and not settled."""
        subscriptions, self._subscriptions = list(self._subscriptions.values()), {}
        for why in self._paused.values():
            why.clear()
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))
