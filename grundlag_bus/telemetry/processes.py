"""Adds up what several processes count, also those that have ended.

Each process writes its counters and histograms to mapped files of its own in one directory, as prometheus_client's
multiprocess mode does; what a killed process counted is in them too. Gauges are not among them: whoever exposes the
whole knows how its processes stand. Beside it stands how many processes have ended: grundlag_process_ends_total.

The supervisor makes a `ProcessMetrics`, starts each child with `environment` in its environment (prometheus_client
reads it when it is imported, so it must be there from the start), exposes the whole by `expose`, and calls `ended` with
the pid of each child that has ended. A child does as any process: it makes a `PrometheusHook` and needs no port. What
its own code counts by prometheus_client is exposed with the rest.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import close_all_multiprocess_files

from grundlag_bus.telemetry.exposition import expose

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prometheus_client import Metric

    from grundlag_bus.telemetry.exposition import Standing

_ENDED = "ended"


class ProcessMetrics:
    """What the processes that write to a directory count. The directory must be empty at first, and local."""

    def __init__(self, directory: Path) -> None:
        self._files = _Files(directory)
        self.environment = {"PROMETHEUS_MULTIPROC_DIR": str(directory)}

    def expose(self, workers: Iterable[Standing] = ()) -> bytes:
        """Write the sum of all processes, and gauges of the workers given. Called in any thread."""
        return expose(self._files, workers)

    def ended(self, pid: int) -> None:
        """Keep what a process that has ended counted, and not its files: those of many restarts would pile up."""
        self._files.merge(pid)


def close_files() -> None:
    """Close what this process counts into, as its last act: nothing can be counted afterwards."""
    close_all_multiprocess_files()


class _Files(Collector):
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._changing = threading.Lock()
        self._ends = 0

    def collect(self) -> Iterable[Metric]:
        with self._changing:
            counted = list(MultiProcessCollector.merge(self._written("*"), accumulate=True))
            return [*counted, CounterMetricFamily("grundlag_process_ends", "Processes that ended.", value=self._ends)]

    def merge(self, pid: int) -> None:
        with self._changing:
            self._ends += 1
            for kind in ("counter", "histogram", "summary"):
                for file in self._written(f"{kind}_{pid}"):
                    total = MmapedDict(str(self._directory / f"{kind}_{_ENDED}.db"))
                    for key, value, _, _ in MmapedDict.read_all_values_from_file(file):
                        total.write_value(key, total.read_value(key)[0] + value, 0.0)
                    total.close()
            for written in self._directory.glob(f"*_{pid}.db"):
                written.unlink()

    def _written(self, name: str) -> list[str]:
        """List files that hold something: a process may be about to begin with one, or was killed when it did."""
        return [str(file) for file in self._directory.glob(f"{name}.db") if file.stat().st_size]
