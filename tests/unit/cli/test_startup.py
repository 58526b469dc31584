from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.command_line import ROOT

HEAVY = {
    "aio_pika",
    "aiormq",
    "alembic",
    "cryptography",
    "dishka",
    "icalendar",
    "jsonschema_rs",
    "sqlalchemy",
    "structlog",
}


@pytest.mark.parametrize(
    "line",
    [
        ["--help"],
        ["call", "--help"],
        ["worker", "--help"],
        ["run", "script", "--help"],
        ["host", "--help"],
        ["dead", "redrive", "--help"],
        ["doctor", "--help"],
        ["namespace", "delete", "--help"],
        ["--version"],
        ["frob"],
    ],
)
def test_a_line_that_runs_nothing_loads_nothing_slow(line: list[str]) -> None:
    script = f"import sys; from grundlag_bus.cli import app; app.run_line({line!r}); print('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded"
    assert HEAVY.isdisjoint(loaded)
