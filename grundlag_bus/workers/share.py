"""The share of a registry that a worker serves: which lanes of which providers, and how many calls of each at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.workers.lanes import BROKERS_DEFAULT, LONG, Lane, lane_of, settled_early

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Broker

Concurrency = int | Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Place:
    """One lane of one provider. concurrency: how many of its calls run at once."""

    provider_id: str
    lane_id: str
    lane: Lane
    concurrency: int


@dataclass(frozen=True, slots=True)
class Share:
    """Every place that a worker takes calls from."""

    places: tuple[Place, ...]

    @property
    def providers(self) -> tuple[str, ...]:
        return tuple(sorted({place.provider_id for place in self.places}))

    @property
    def lanes(self) -> tuple[str, ...]:
        return tuple(sorted({place.lane_id for place in self.places}))

    @property
    def concurrency(self) -> int:
        """How many calls run at once in all."""
        return sum(place.concurrency for place in self.places)

    def limit_of(self, lane_id: str) -> float:
        """Return the seconds that an action of a lane may run."""
        lane = self._lane(lane_id)
        return math.inf if lane is None else lane.limit

    def timeout_of(self, lane_id: str) -> float:
        """Return the seconds that the broker leaves a delivery of a lane with this worker."""
        lane = self._lane(lane_id)
        return math.inf if lane is None else lane.consumer_timeout

    def _lane(self, lane_id: str) -> Lane | None:
        for place in self.places:  # few, and asked for each call: a loop takes a third of what a generator does
            if place.lane_id == lane_id:
                return place.lane
        return None

    def check_broker(self, broker: Broker) -> None:
        """Raise ConfigurationError when the broker would take deliveries back before their actions may end."""
        if broker.honours_consumer_timeout:
            return
        for place in self.places:
            if place.lane.needs_own_timeout:
                raise ConfigurationError(
                    f"Calls of lane {place.lane_id!r} (provider {place.provider_id}) may run for "
                    f"{place.lane.limit:g} s, and {broker} takes a call back after {BROKERS_DEFAULT:g} s whatever a "
                    "worker asks for: use RabbitMQ 4.3 or newer, give lane 'long' a ledger (--ledger URL), or serve "
                    'other lanes alone (--lane main, or Worker(lanes=["main"])).'
                )


def share_of(  # noqa: PLR0913  what a worker can be told
    registry: ProviderRegistry,
    *,
    providers: Collection[str] | None = None,
    lanes: Collection[str] | None = None,
    concurrency: Concurrency = None,
    limits: Mapping[str, float] | None = None,
    ledger: bool = False,
) -> Share:
    """Choose a share of a registry. None: every provider, every lane, what the lane says. Raises ConfigurationError.

    ledger: whether there is one, which holds the calls of lane `long`.
    """
    by_lane = concurrency if isinstance(concurrency, Mapping) else {}
    limits = limits or {}
    _check_numbers(concurrency, limits)
    there = [(provider.id, lane) for provider in registry.providers.values() for lane in provider.lanes]
    known = sorted({lane for _, lane in there})
    _check("provider", providers, registry.providers)
    for named in (lanes, by_lane, limits):
        _check("lane", named, known)
    served = [
        (provider_id, lane_id)
        for provider_id, lane_id in there
        if (providers is None or provider_id in providers) and (lanes is None or lane_id in lanes)
    ]
    if not served and (providers is not None or lanes is not None):
        raise ConfigurationError(
            f"Nothing is left to serve of {_list(providers or registry.providers)} in {_list(lanes or known)}: "
            f"there is {', '.join(f'{provider_id} in {lane_id}' for provider_id, lane_id in there) or 'no action'}."
        )
    places = []
    for provider_id, lane_id in served:
        lane = lane_of(lane_id, limit=limits.get(lane_id))
        if ledger and lane_id == LONG:
            lane = settled_early(lane, limited=lane_id in limits)
        at_once = concurrency if isinstance(concurrency, int) else by_lane.get(lane_id, lane.concurrency)
        places.append(Place(provider_id, lane_id, lane, at_once))
    return Share(tuple(places))


def _check(kind: str, named: Collection[str] | None, known: Collection[str]) -> None:
    if isinstance(named, str):
        raise ConfigurationError(f"{named!r} is one {kind} where several may stand: write [{named!r}].")
    unknown = [name for name in named or () if name not in known]
    if unknown:
        raise ConfigurationError(
            f"The registry has no {kind} {_list(unknown)}: it has {_list(sorted(known)) or f'no {kind} at all'}."
        )


def _check_numbers(concurrency: Concurrency, limits: Mapping[str, float]) -> None:
    numbers = {"": concurrency} if isinstance(concurrency, int) else concurrency or {}
    for lane_id, number in numbers.items():
        if number < 1:
            where = f" in lane {lane_id!r}" if lane_id else ""
            raise ConfigurationError(f"concurrency={number} runs nothing{where}: give at least 1.")
    for lane_id, limit in limits.items():
        if not limit > 0:
            raise ConfigurationError(f"A limit of {limit:g} s ends every action of lane {lane_id!r}: give more than 0.")


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
