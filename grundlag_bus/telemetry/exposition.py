"""Writes metrics as Prometheus reads them: counts, and gauges of how workers stand now.

    grundlag_workers             workers of this process, or of all its child processes
    grundlag_workers_serving     of them: started, not draining, connected, with all of their consumers
    grundlag_workers_connected   of them: connected to the broker
    grundlag_workers_blocked     of them: kept from publishing by the broker's memory or disk alarm
    grundlag_calls_in_flight     calls that run
    grundlag_consumers_wanted    consumers that there should be
    grundlag_consumers_actual    consumers that there are
    grundlag_ledgers_away        workers whose ledger's database does not serve
    grundlag_leases_held         calls that are leased
    grundlag_lease_oldest_seconds  for how long the oldest of them is
    grundlag_loop_still_seconds  how long an event loop has stood still: of all workers the longest

In front of them stands what was counted. What a worker said before its loop stood still for longer than the broker's
patience is not believed: it is not connected and has no consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from grundlag_bus.telemetry.loop import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric


class Standing(Protocol):
    """How a worker stands."""

    @property
    def started(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    @property
    def blocked(self) -> bool: ...
    @property
    def consumers_wanted(self) -> int: ...
    @property
    def consumers_actual(self) -> int: ...
    @property
    def ledger_away(self) -> str | None: ...
    @property
    def leases(self) -> int: ...
    @property
    def oldest_lease(self) -> float: ...
    @property
    def still(self) -> float: ...


class _Sources(Collector):
    def __init__(self, counted: Collector, workers: Sequence[Standing]) -> None:
        self._counted = counted
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        yield from map(_without_creation, self._counted.collect())
        workers = self._workers
        turning = [worker for worker in workers if worker.still <= PATIENCE]
        connected = [worker for worker in turning if worker.connected]
        yield _gauge("workers", "Workers there are.", len(workers))
        yield _gauge("workers_serving", "Workers that take calls.", sum(map(_serves, connected)))
        yield _gauge("workers_connected", "Workers connected to the broker.", len(connected))
        yield _gauge("workers_blocked", "Workers that a broker's alarm blocks.", sum(w.blocked for w in workers))
        yield _gauge("calls_in_flight", "Calls that run.", sum(w.in_flight for w in workers))
        yield _gauge("consumers_wanted", "Consumers to have.", sum(w.consumers_wanted for w in workers))
        yield _gauge("consumers_actual", "Consumers there are.", sum(w.consumers_actual for w in turning))
        away = sum(worker.ledger_away is not None for worker in workers)
        yield _gauge("ledgers_away", "Workers whose ledger's database does not serve.", away)
        yield _gauge("leases_held", "Calls that are leased.", sum(w.leases for w in workers))
        oldest = max((worker.oldest_lease for worker in workers), default=0.0)
        yield _gauge("lease_oldest_seconds", "How long a call has been leased, the longest.", oldest)
        still = max((worker.still for worker in workers), default=0.0)
        yield _gauge("loop_still_seconds", "How long an event loop has stood still, the longest.", still)


def expose(counted: Collector, workers: Iterable[Standing] = ()) -> bytes:
    """Write what a `PrometheusHook` counted (its `collectors`), and gauges of the workers given."""
    return generate_latest(_Sources(counted, tuple(workers)))


def _serves(connected: Standing) -> bool:
    return connected.started and not connected.draining and connected.consumers_actual >= connected.consumers_wanted


def _gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"grundlag_{name}", told, value=value)


def _without_creation(metric: Metric) -> Metric:
    """Leave out when each series began: this text format shows it as a series of its own."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
