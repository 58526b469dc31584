from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grundlag_bus.telemetry.processes import ProcessMetrics
from tests.support.scrape import Scrape


@contextmanager
def _counting(metrics: ProcessMetrics, calls: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.counting_process", str(calls)],
        env={**os.environ, **metrics.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "counted\n"
            yield process
        finally:
            process.kill()


def _calls(metrics: ProcessMetrics) -> float:
    by = {"provider": "notes", "action": "add", "outcome": "completed", "code": ""}
    return Scrape(metrics.expose()).value("grundlag_calls_total", **by)


def test_what_two_processes_count_adds_up_and_stays_when_one_is_killed(tmp_path: Path) -> None:
    metrics = ProcessMetrics(tmp_path)
    with _counting(metrics, 3), _counting(metrics, 4) as second:
        assert _calls(metrics) == 7
        second.kill()
        second.wait()
        assert _calls(metrics) == 7
        assert Scrape(metrics.expose()).value("grundlag_process_ends_total") == 0

        metrics.ended(second.pid)
        assert Scrape(metrics.expose()).value("grundlag_process_ends_total") == 1
        metrics.ended(second.pid)

        assert _calls(metrics) == 7
        scraped = Scrape(metrics.expose())
        by = {"provider": "notes", "action": "add"}
        assert scraped.value("grundlag_call_run_seconds_sum", **by) == 3.5
        assert scraped.value("grundlag_call_run_seconds_bucket", **by, le="0.25") == 0
        assert scraped.value("grundlag_call_run_seconds_bucket", **by, le="0.5") == 7
        assert scraped.value("grundlag_call_run_seconds_bucket", **by, le="+Inf") == 7
        assert scraped.value("grundlag_loop_lag_seconds_count") == 2


def test_the_files_of_processes_that_have_ended_do_not_pile_up(tmp_path: Path) -> None:
    metrics = ProcessMetrics(tmp_path)
    for _ in range(3):
        with _counting(metrics, 2) as process:
            process.kill()
            process.wait()
            metrics.ended(process.pid)

    assert _calls(metrics) == 6
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counter_ended.db", "histogram_ended.db"]


def test_a_process_that_was_killed_before_it_wrote_anything_spoils_nothing(tmp_path: Path) -> None:
    metrics = ProcessMetrics(tmp_path)
    (tmp_path / "counter_1.db").touch()
    with _counting(metrics, 2):
        assert _calls(metrics) == 2
    metrics.ended(1)
    assert not (tmp_path / "counter_1.db").exists()
