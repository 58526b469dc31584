"""How much one user may ask of this process: at once, and in a time. Other processes count for themselves."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.gateway.refusing import busy
from grundlag_bus.schema.codec import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_BUCKETS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """What one process of the host takes.

    body: bytes of a request; body_seconds: until it must be there; concurrent: calls of one user that run at once, and
    streams of events that are open; scripts: of one user, that run or wait for an engine at once; rate, burst: requests
    of one user, per second on the average and at once.
    """

    body: int = MAX_BYTES
    body_seconds: float = 15.0
    concurrent: int = 1000
    scripts: int = 16
    rate: float = 1000.0
    burst: int = 2000

    def __post_init__(self) -> None:
        if min(self.body, self.concurrent, self.scripts, self.burst) < 1 or self.body_seconds <= 0 or self.rate <= 0:
            raise ConfigurationError("Every limit of a gateway is above 0: with less it would refuse everybody.")


class Shares:
    """Counts for each user; None is whoever does not say who it is."""

    def __init__(self, limits: GatewayLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: Counter[str | None] = Counter()
        self._buckets: dict[str | None, tuple[float, float]] = {}

    def spend(self, user_id: str | None) -> None:
        """Count a request. Raises Refused when the user has made too many."""
        now, limits = self._clock(), self._limits
        full = float(limits.burst)
        left, at = self._buckets.pop(user_id, (full, now))
        left = min(full, left + (now - at) * limits.rate)
        allowed = left >= 1
        self._buckets[user_id] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]  # who asked longest ago
        if not allowed:
            raise busy(429, "Too many requests: ask again after the pause.", after=(1 - left) / limits.rate)

    @contextmanager
    def one(self, user_id: str | None) -> Iterator[None]:
        """Count something that runs. Raises Refused when too much does."""
        self.enter(user_id)
        try:
            yield
        finally:
            self.leave(user_id)

    def enter(self, user_id: str | None) -> None:
        if self._running[user_id] >= self._limits.concurrent:
            message = f"{self._limits.concurrent} of your calls or scripts run here: ask again when one has ended."
            raise busy(429, message, after=1)
        self._running[user_id] += 1

    def leave(self, user_id: str | None) -> None:
        self._running[user_id] -= 1
        if not self._running[user_id]:
            del self._running[user_id]
