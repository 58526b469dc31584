"""Bounds how many calls run at once where they are settled when they begin: the broker counts them no more.

Prefetch bounds what is in hand. A call that is settled early is not, and keeps its place all the same: the last free
place of a lane pauses its consumer, before the delivery that took it is settled, and the first that becomes free
resumes it. What was delivered beyond that is given back when the consumer is paused, and not before: it would come
again at once. So no lower prefetch is needed, which RabbitMQ takes from a new consumer alone, and a worker that is full
leaves what waits, watch copies too, to those that are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.workers.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Delivery
    from grundlag_bus.workers.intake import Intake
    from grundlag_bus.workers.run import Run
    from grundlag_bus.workers.share import Place, Share

_WHY = "full"


class Room:
    """Counts by place. runs: the calls that run here, by id."""

    def __init__(self, intake: Intake, share: Share, runs: Mapping[str, Run]) -> None:
        self._intake = intake
        self._places = {(place.provider_id, place.lane_id): place for place in share.places if place.lane.early}
        self._runs = runs
        self._paused: set[Place] = set()
        self._beside = Beside()

    def bounds(self, call: Call) -> bool:
        """Whether calls of this place are settled when they begin."""
        return (call.provider_id, call.lane) in self._places

    def has(self, call: Call) -> bool:
        """Whether one more call may run at its place."""
        place = self._places.get((call.provider_id, call.lane))
        return place is None or self._taken(place) < place.concurrency

    def give_back(self, call: Call, delivery: Delivery) -> None:
        """Give back what there is no room for."""
        self._beside.do(self._give_back(self._places[call.provider_id, call.lane], delivery))

    async def count(self, run: Run) -> None:
        """Return when a run may be settled, which keeps its place: what is delivered for that has nowhere to go."""
        await self._pause_if_full(self._places[run.call.provider_id, run.call.lane])

    def freed(self, call: Call) -> None:
        """Take calls again at the place of one that has ended, if it was full."""
        place = self._places.get((call.provider_id, call.lane))
        if place in self._paused and self._taken(place) < place.concurrency:
            self._paused.discard(place)
            self._intake.resume(_WHY, place)

    def close(self) -> None:
        self._beside.cancel()
        self._paused.clear()

    async def _give_back(self, place: Place, delivery: Delivery) -> None:
        await self._pause_if_full(place)
        delivery.nack()

    async def _pause_if_full(self, place: Place) -> None:
        """Pause a place as long as it is full: one that was, and has room again, is resumed by nobody."""
        if self._taken(place) >= place.concurrency:
            self._paused.add(place)
            await self._intake.pause(_WHY, place)

    def _taken(self, place: Place) -> int:
        here = (place.provider_id, place.lane_id)
        return sum((run.call.provider_id, run.call.lane) == here for run in self._runs.values())
