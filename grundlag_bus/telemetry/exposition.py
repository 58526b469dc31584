"""Writes metrics as Prometheus reads them: counts, and gauges of how workers stand now.

    grundlag_workers             workers of this process, or of all its child processes
    grundlag_workers_serving     of them: started, and not draining
    grundlag_workers_connected   of them: connected to the broker
    grundlag_workers_blocked     of them: kept from publishing by the broker's memory or disk alarm
    grundlag_calls_in_flight     calls that run
    grundlag_consumers_wanted    consumers that there should be
    grundlag_consumers_actual    consumers that there are

In front of them stands what was counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

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


class _Sources(Collector):
    def __init__(self, counted: Collector, workers: Sequence[Standing]) -> None:
        self._counted = counted
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        yield from map(_without_creation, self._counted.collect())
        workers = self._workers
        serving = sum(worker.started and not worker.draining for worker in workers)
        yield _gauge("workers", "Workers there are.", len(workers))
        yield _gauge("workers_serving", "Workers that take calls.", serving)
        yield _gauge("workers_connected", "Workers connected to the broker.", sum(w.connected for w in workers))
        yield _gauge("workers_blocked", "Workers that a broker's alarm blocks.", sum(w.blocked for w in workers))
        yield _gauge("calls_in_flight", "Calls that run.", sum(w.in_flight for w in workers))
        yield _gauge("consumers_wanted", "Consumers to have.", sum(w.consumers_wanted for w in workers))
        yield _gauge("consumers_actual", "Consumers there are.", sum(w.consumers_actual for w in workers))


def expose(counted: Collector, workers: Iterable[Standing] = ()) -> bytes:
    """Write what a `PrometheusHook` counted (its `collectors`), and gauges of the workers given."""
    return generate_latest(_Sources(counted, tuple(workers)))


def _gauge(name: str, told: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"grundlag_{name}", told, value=value)


def _without_creation(metric: Metric) -> Metric:
    """Leave out when each series began: this text format shows it as a series of its own."""
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    return metric
