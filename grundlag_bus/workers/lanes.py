"""Lanes: how long an action may run in each, and so how long a worker may hold what it was given.

An action is ended at `Lane.limit`. What is left until `consumer_timeout`, when the broker takes the delivery back and
gives it to another worker, is for ending it, for its reply and for the ack.

With a ledger a lane may hold no deliveries at all (`settled_early`), and its actions end by their deadlines alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BROKERS_DEFAULT = 1800.0
"""Seconds that every broker leaves a delivery with a consumer that asks for nothing else."""

AFTER_LIMIT = 180.0
"""Seconds from a lane's limit to its consumer time-out, where only the limit is given."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How a worker serves a lane.

    limit: seconds that an action may run; consumer_timeout: seconds until the broker takes its delivery back;
    concurrency: how many of its calls run at once for each provider, unless the worker is told otherwise; early:
    whether its deliveries are settled when their actions begin, and watch copies look after them.
    """

    limit: float
    consumer_timeout: float
    concurrency: int = 64
    early: bool = False

    @property
    def needs_own_timeout(self) -> bool:
        """Whether a broker that goes by its own consumer time-out would take deliveries back too early."""
        return self.consumer_timeout > BROKERS_DEFAULT


LONG = "long"
MAIN = Lane(limit=25 * 60.0, consumer_timeout=28 * 60.0)
LANES: Mapping[str, Lane] = MappingProxyType(
    {
        "main": MAIN,
        # Few at once: whoever is started later finds calls to take, where each one lasts for hours.
        LONG: Lane(limit=24 * 3600.0 - 300, consumer_timeout=24 * 3600.0 + 300, concurrency=16),
    }
)


def lane_of(name: str, *, limit: float | None = None) -> Lane:
    """Return how a lane is served; one that is not named above as `main`. limit: another one than its own."""
    lane = LANES.get(name, MAIN)
    if limit is None:
        return lane
    return Lane(limit, limit + AFTER_LIMIT, lane.concurrency)


def settled_early(lane: Lane, *, limited: bool) -> Lane:
    """Return how a lane is served whose calls a ledger holds. limited: whether its limit was asked for."""
    return replace(lane, limit=lane.limit if limited else math.inf, consumer_timeout=MAIN.consumer_timeout, early=True)
