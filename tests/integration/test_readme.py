"""The README's code and its shell sessions do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.namespaces import delete_namespaces

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = "amqp://guest:guest@localhost/"


@dataclass(frozen=True)
class Step:
    """A command of a session, with what the README shows that it prints."""

    command: str
    shown: str

    @property
    def lasts(self) -> bool:
        return " worker " in self.command


def sessions() -> list[list[Step]]:
    """Read the shell sessions that use a broker."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        if ADDRESS not in block or "make " in block:
            continue
        parts = re.findall(r"^\$ (.*?)(?:\s+#.*)?\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        found.append([Step(command, shown) for command, shown in parts])
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Hold every file that the README shows, under its name."""
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        name = re.match(r"# (\S+\.py)\n", block)
        assert name is not None, block[:60]
        (tmp_path / name[1]).write_text(block)
    return tmp_path


@pytest.fixture
async def address(broker: Broker) -> AsyncIterator[str]:
    """Name the broker; the README uses the default namespace of it."""
    yield broker.url
    await delete_namespaces(broker.url, ["grundlag"])


def start(command: str, folder: Path, address: str) -> subprocess.Popen[str]:
    program, *rest = command.replace(ADDRESS, address).split(" ")
    module = {"grundlag-bus": [sys.executable, "-m", "grundlag_bus"], "python": [sys.executable]}[program]
    arguments = [argument.strip("'") for argument in rest if argument]
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*module, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextmanager
def running(steps: list[Step], folder: Path, address: str) -> Iterator[None]:
    """Run the programs that last, from the moment that each says it serves."""
    started = [start(step.command, folder, address) for step in steps]
    try:
        for program in started:
            assert program.stderr is not None
            assert any("serving" in line for line in program.stderr), program.args
        yield
    finally:
        for program in started:
            program.terminate()
            program.communicate(timeout=30)


def output(command: str, folder: Path, address: str) -> str:
    program = start(command, folder, address)
    told, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    return told


def test_the_example_runs_in_process(folder: Path) -> None:
    assert output("python use.py", folder, "") == "Delete Lunch?\n{'deleted': True}\n"


def test_the_example_of_a_delayed_call_and_an_event_runs_in_process(folder: Path) -> None:
    assert output("python reminders.py", folder, "") == "reminded {'text': 'Lunch'}\n"


def test_the_example_of_a_test_passes(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_myapp.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_there_are_sessions_to_follow() -> None:
    assert [sum(step.lasts for step in session) for session in sessions()] == [1, 2]


@pytest.mark.parametrize("session", sessions(), ids=["myapp", "demo"])
def test_a_session_prints_what_is_shown(session: list[Step], folder: Path, address: str) -> None:
    with running([step for step in session if step.lasts], folder, address):
        for step in session:
            if not step.lasts:
                assert output(step.command, folder, address) == step.shown
