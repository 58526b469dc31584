"""The README's code and its shell sessions do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.namespaces import delete_namespaces

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS: list[str] = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
PROGRAMS = {"grundlag-bus": [sys.executable, "-m", "grundlag_bus"], "python": [sys.executable]}
ADDRESS = "amqp://guest:guest@localhost/"


@dataclass(frozen=True)
class Step:
    """A command of a session, with what the README shows that it prints."""

    command: str
    shown: str

    @property
    def lasts(self) -> bool:
        return " worker " in self.command or self.command == "grundlag-bus host"


def sessions() -> list[list[Step]]:
    """Read the shell sessions that use a broker."""
    return [steps_of(block) for block in BLOCKS if ADDRESS in block and not re.search("make |export | serve ", block)]


def steps_of(block: str) -> list[Step]:
    block = re.sub(r"\\\n\s+", "", block)
    parts = re.findall(r"^\$ (.*?)(?:\s+#.*)?\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [Step(command, shown) for command, shown in parts]


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
    await delete_namespaces(broker.url, ["grundlag", "myapp", "shop"])


def start(command: str, folder: Path, address: str) -> subprocess.Popen[str]:
    program, *rest = command.replace(ADDRESS, address).split(" ")
    arguments = [argument.strip("'") for argument in rest if argument]
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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


def test_the_example_of_what_takes_hours_runs_in_process(folder: Path) -> None:
    assert output("python library.py", folder, "") == "{'count': 3}\n"


def test_the_agent_runs_in_process(folder: Path) -> None:
    assert output("python agent.py", folder, "") == "Delete Lunch?\nNo lunch today.\n"


def test_the_script_runs_in_process(folder: Path) -> None:
    assert output("python script.py", folder, "") == "Delete Lunch?\n{'made': 2, 'deleted': True} 3\n"


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


@pytest.mark.xdist_group("the default namespace")
@pytest.mark.parametrize("session", sessions(), ids=["myapp", "demo"])
def test_a_session_prints_what_is_shown(session: list[Step], folder: Path, address: str) -> None:
    with running([step for step in session if step.lasts], folder, address):
        for step in session:
            if not step.lasts:
                assert output(step.command, folder, address) == step.shown


def test_a_host_answers_over_http(folder: Path, address: str) -> None:
    (session,) = [steps_of(block) for block in BLOCKS if "$ curl " in block and " worker " in block]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    steps = [Step(step.command.replace("8080", str(port)), step.shown) for step in session]
    with running(steps[:2], folder, address):
        asked = subprocess.run([*shlex.split(steps[2].command), "-sS"], capture_output=True, text=True, check=True)
        assert asked.stdout == steps[2].shown.rstrip("\n")


def test_a_call_with_a_token_is_listened_to_over_http(folder: Path) -> None:
    (session,) = [steps_of(block) for block in BLOCKS if "$ curl " in block and " --tokens " in block]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    write, serve, ask = [Step(step.command.replace("8080", port), step.shown) for step in session]
    subprocess.run(write.command, shell=True, cwd=folder, check=True)  # noqa: S602  as a reader types it
    with running([serve], folder, ""):
        asked = subprocess.run([*shlex.split(ask.command), "-sS"], capture_output=True, text=True, check=True)
    assert bare_events(asked.stdout) == bare_events(ask.shown)


def bare_events(shown: str) -> str:
    """Leave out what is different each time."""
    return re.sub(r'"[0-9a-f]{32}"', "ID", re.sub(r'"[\dT:.-]+Z"', "TIME", shown)).strip()


def test_a_typed_client_calls_a_host_and_a_type_checker_reads_it(folder: Path) -> None:
    (session,) = [steps_of(block) for block in BLOCKS if "client generate" in block]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    steps = [Step(step.command.replace("8080", port), step.shown) for step in session]
    program = folder / "typed.py"
    program.write_text(program.read_text().replace("8080", port))
    with running(steps[:1], folder, ""):
        for step in steps[1:]:
            assert output(step.command, folder, "") == step.shown
    assert mistakes(folder) == []
    program.write_text(program.read_text().replace('"title": "Lunch"', '"title": 7'))
    (mistake,) = mistakes(folder)
    assert '"title"' in mistake


def mistakes(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "mypy", "--strict", str(folder / "typed.py"), str(folder / "calendar_client.py")]
    environment = {**os.environ, "MYPYPATH": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


# --- when a call died -------------------------------------------------------------------------------------------------


RUNS = (("inbox", "answer", "interruptId"), ("runs", "run show", "runId"))


class Operator:
    """Follows the walkthrough, whose ids and times are others each time."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": f"{ROOT}:{folder}"}
        self.address = address
        self.ids: dict[str, str] = {}

    def follow(self, steps: list[Step]) -> None:
        for step in steps:
            self.learn_ids(step)
            program, *arguments = shlex.split(self.theirs(step.command))
            if program == "export":
                self.environment |= dict(setting.split("=", 1) for setting in arguments)
            elif not step.lasts:
                self.compare(step, [*PROGRAMS.get(program, [program]), *arguments])

    @contextmanager
    def running(self, steps: list[Step]) -> Iterator[None]:
        """Run the programs that last, from the moment that each says it serves."""
        commands = [[*PROGRAMS["grundlag-bus"], *step.command.split()[1:]] for step in steps if step.lasts]
        started = [
            subprocess.Popen(command, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True)
            for command in commands
        ]
        try:
            for program in started:
                assert program.stderr is not None
                assert any("serving" in line for line in program.stderr), program.args
            yield
        finally:
            for program in started:
                program.terminate()
                program.communicate(timeout=30)

    def learn_ids(self, step: Step) -> None:
        """Learn which letter, question or run the README means by the id that it shows."""
        for listing, of, name in (("dead list", "dead show", "id"), *RUNS):
            shown = re.search(rf"\b{of} (\w+)", step.command)
            if shown is not None and shown[1] not in self.ids:
                told = json.loads(self.run([*PROGRAMS["grundlag-bus"], *listing.split(), "--json"]))
                self.ids[shown[1]] = (told[0] if isinstance(told, list) else told)[name][: len(shown[1])]

    def compare(self, step: Step, command: list[str]) -> None:
        wanted = self.bare(step.shown)
        told = self.bare(self.run(command))
        end = time.monotonic() + 20
        while step.command.startswith(("cat ", "grundlag-bus inbox")) and told != wanted and time.monotonic() < end:
            told = self.bare(self.run(command))  # what was sent again runs in a moment
        if "..." in wanted:
            told = [*told[: wanted.index("...")], "..."]
        assert told == wanted, step.command

    def run(self, command: list[str]) -> str:
        """Run a command and return all that it prints, whatever its exit code."""
        told = subprocess.PIPE
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=told,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def theirs(self, command: str) -> str:
        """Say here what the README says there."""
        for id, ours in self.ids.items():  # noqa: A001  the word
            command = command.replace(id, ours)
        return command.replace(ADDRESS, self.address)

    def bare(self, shown: str) -> list[str]:
        """Leave out what is different each time, or on each terminal: ids, times, names of workers, width."""
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "TIME", shown)
        text = re.sub(r"after [\d.]+ s\b|(status +)\w+(, TIME)?", r"\1", text)
        text = re.sub(r"\S+-\d+-[0-9a-f]{8}\b", "WORKER", text)
        text = re.sub(r"\b(?:[0-9a-f]{8}|[0-9a-f]{12}|[0-9a-f]{32})\b", "ID", text)
        text = re.sub(
            r"(at last with)\S*…$|(attempts_exhausted +2 .*?at last with).*$", r"\1\2", text, flags=re.MULTILINE
        )
        lines = [" ".join(line.split()) for line in text.splitlines()]
        return [line for line in lines if line.strip("─ ")]


def test_an_operator_finds_why_a_call_died_and_redrives_it(folder: Path, address: str) -> None:
    start_of_it, end_of_it = (steps_of(block) for block in BLOCKS if "supplier-is-down" in block)
    operator = Operator(folder, address)
    (serve,) = [step for step in start_of_it if step.lasts]
    before, after = start_of_it[: start_of_it.index(serve)], start_of_it[start_of_it.index(serve) + 1 :]
    operator.follow(before)
    with operator.running([serve]):
        operator.follow([*after, *end_of_it])


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_is_answered_after_everything_was_stopped(folder: Path, address: str) -> None:
    before, after = (steps_of(block) for block in BLOCKS if "grundlag-bus inbox" in block or " --follow" in block)
    operator = Operator(folder, address)
    operator.follow([step for step in before if step.command.startswith("export ")])
    with operator.running(before):
        operator.follow([step for step in before if not step.command.startswith("export ")])
    with operator.running(before):
        operator.follow(after)
