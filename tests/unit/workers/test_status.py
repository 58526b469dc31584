from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grundlag_bus.telemetry.report import Report
from grundlag_bus.workers.status import WorkerStatus, ready

_SERVING = WorkerStatus(
    name="w1",
    providers=("notes",),
    lanes=("main",),
    started=True,
    draining=False,
    in_flight=0,
    connected=True,
    blocked=False,
    consumers_wanted=3,
    consumers_actual=3,
)


def test_a_worker_that_serves_is_ready() -> None:
    assert ready(_SERVING) == Report(ok=True)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"started": False, "connected": False, "consumers_wanted": 0}, ("starting", "not connected to the broker")),
        ({"started": False, "consumers_actual": 1}, ("starting", "1 of 3 consumers are there")),
        ({"draining": True, "consumers_actual": 0, "consumers_wanted": 3}, ("draining",)),
        ({"connected": False, "consumers_actual": 0, "blocked": True}, ("not connected to the broker",)),
        ({"blocked": True}, ("publishing is blocked by the broker's memory or disk alarm",)),
        ({"consumers_actual": 2}, ("2 of 3 consumers are there",)),
        (
            {"blocked": True, "consumers_actual": 2},
            ("publishing is blocked by the broker's memory or disk alarm", "2 of 3 consumers are there"),
        ),
    ],
)
def test_a_worker_that_does_not_serve_says_why(changes: dict[str, Any], reasons: tuple[str, ...]) -> None:
    assert ready(replace(_SERVING, **changes)) == Report(ok=False, reasons=reasons)
