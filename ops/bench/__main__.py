"""Print the table of calls over the bus: `python -m ops.bench [--url amqp://...] [--calls N] [--rounds N] [--bound R]`.

The contestants take turns in one run, since a machine's speed drifts; each figure is the median of its rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ops.bench.contest import CONTESTANTS, Measured, measure
from ops.rabbitmq.node import Node
from ops.rabbitmq.roots import broker_root, installed_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

IN_FLIGHT = (1, 64)
SLOW = {"faststream": 0.1}
"""The share of the calls that a slow contestant is given."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description="Calls over the bus, beside others.")
    parser.add_argument("--url", help="a RabbitMQ that nothing else uses meanwhile (default: a private node)")
    parser.add_argument("--calls", type=int, default=6000, help="calls of each run at 64 in flight (default 6000)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each contestant (default 5)")
    parser.add_argument("--bound", type=float, help="fail when we are slower than this share of aiormq at 64 in flight")
    given = parser.parse_args(arguments)
    with broker(given.url) as url:
        rows = {in_flight: _rounds(given, url, in_flight) for in_flight in IN_FLIGHT}
    print(_table(rows))
    ratio = _ratio(rows[IN_FLIGHT[-1]])
    print(f"\ngrundlag_bus / aiormq at {IN_FLIGHT[-1]} in flight: {ratio:.2f}")
    if given.bound is not None and ratio < given.bound:
        print(f"That is below the bound of {given.bound}.", file=sys.stderr)
        return 1
    return 0


@contextmanager
def broker(url: str | None) -> Iterator[str]:
    """Give the address of the broker that is measured: the one given, or a private node."""
    if url is not None:
        yield url
        return
    node = Node(installed_broker("4.3") or broker_root("4.3"))
    try:
        node.start()
        print(f"RabbitMQ {node.version}, a private node", file=sys.stderr)
        yield node.url
    finally:
        node.close()


def _rounds(given: argparse.Namespace, url: str, in_flight: int) -> dict[str, list[Measured]]:
    runs: dict[str, list[Measured]] = {name: [] for name in CONTESTANTS}
    for each in range(given.rounds):
        for name in CONTESTANTS:
            calls = max(100, int(given.calls * SLOW.get(name, 1) * (1 if in_flight > 1 else 0.2)))
            runs[name].append(measure(name, url, calls=calls, in_flight=in_flight))
            print(f"round {each + 1}, {in_flight} in flight, {name}: {runs[name][-1]}", file=sys.stderr)
    return runs


def _ratio(runs: dict[str, list[Measured]]) -> float:
    """Compare within each round, and take the median of the rounds."""
    pairs = zip(runs["grundlag_bus"], runs["aiormq"], strict=True)
    return statistics.median(ours.calls_per_second / theirs.calls_per_second for ours, theirs in pairs)


def _table(rows: dict[int, dict[str, list[Measured]]]) -> str:
    lines = [
        "| in flight | contestant | calls/s | p50 ms | caller CPU us/call | worker CPU us/call |",
        "|---|---|---|---|---|---|",
    ]
    for in_flight, runs in rows.items():
        for name, measured in runs.items():
            speed, p50, caller, worker = (
                statistics.median(getattr(each, field) for each in measured)
                for field in ("calls_per_second", "p50", "caller_cpu", "worker_cpu")
            )
            lines.append(f"| {in_flight} | {name} | {speed:.0f} | {p50:.2f} | {caller:.0f} | {worker:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
