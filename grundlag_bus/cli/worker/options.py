"""What the command line asks of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grundlag_bus.cli.options import AtOnce
    from grundlag_bus.providers.registry import ProviderRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """spec: the registry as module:name; providers, lanes: none named means all; level: of the log.

    ledger: the URL of the store that calls are recorded in;
    health_port, health_host: where health and metrics are told; report_to: the socket to the supervisor that started
    this process.
    """

    spec: str
    url: str
    namespace: str
    providers: Sequence[str]
    lanes: Sequence[str]
    concurrency: Sequence[AtOnce]
    keys_file: Path | None
    grace: float
    level: str
    processes: int = 1
    health_port: int | None = None
    health_host: str = "0.0.0.0"  # noqa: S104  a kubelet asks from outside the container
    report_to: int | None = None
    ledger: str | None = None

    def arguments(self) -> list[str]:
        """Return the command line of one of the processes, without the addresses of bus and ledger."""
        return [
            *("worker", self.spec, f"--namespace={self.namespace}", f"--grace={self.grace}"),
            *(f"--provider={provider}" for provider in self.providers),
            *(f"--lane={lane}" for lane in self.lanes),
            *(f"--concurrency={said}" for said in self.concurrency),
            *(() if self.keys_file is None else (f"--keys={self.keys_file}",)),
            *(("--debug",) if self.level == "debug" else ()),
        ]

    def concurrency_of(self, registry: ProviderRegistry) -> int | dict[str, int] | None:
        """Return how many calls run at once in each lane: what is said of a lane counts before what is said of all."""
        everywhere = next((said.calls for said in reversed(self.concurrency) if said.lane is None), None)
        by_lane = {said.lane: said.calls for said in self.concurrency if said.lane is not None}
        if not by_lane or everywhere is None:
            return by_lane or everywhere
        lanes = {lane for provider in registry.providers.values() for lane in provider.lanes}
        return dict.fromkeys(lanes, everywhere) | by_lane
