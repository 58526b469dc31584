"""A process that counts calls, for the tests of several: `python -m tests.support.counting_process CALLS`.

It says `counted` when it has counted, and lives until it is killed or its standard input ends.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

from grundlag_bus.telemetry import CallEnded, CallStarted, LoopTurned
from grundlag_bus.telemetry.prometheus import PrometheusHook


def _count(calls: int) -> None:
    hook = PrometheusHook(SimpleNamespace(providers={"notes": SimpleNamespace(actions={"add"})}))
    for number in range(calls):
        hook(CallStarted("notes", "add", "main", str(number), 1, 1, queued=0.02, redelivered=False, lost=0))
        hook(CallEnded("notes", "add", "main", str(number), "completed", None, ran=0.5, total=0.75))
    hook(LoopTurned(0.001))


if __name__ == "__main__":
    _count(int(sys.argv[1]))
    sys.stdout.write("counted\n")
    sys.stdout.flush()
    sys.stdin.read()
