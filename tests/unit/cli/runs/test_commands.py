"""The commands that need a store alone, in this process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import insert

from grundlag_bus.cli.app import run_line
from grundlag_bus.durable.starting import NewRun, Starting
from grundlag_bus.store.store import Store
from grundlag_bus.store.tables import interrupts


@dataclass
class Line:
    """A command line whose store has a run of ada's that asks something."""

    capsys: pytest.CaptureFixture[str]

    def tell(self, *arguments: str) -> tuple[int, str]:
        code = run_line(list(arguments))
        told = self.capsys.readouterr()
        return code, told.out + told.err

    def read(self, *arguments: str) -> Any:
        assert run_line([*arguments, "--json"]) == 0
        return orjson.loads(self.capsys.readouterr().out)


async def write(url: str) -> None:
    run = NewRun(run_id="r1", kind="script", name="# tea", spec={"source": ""}, user_id="ada", answerer="ada")
    content = {"data": None, "input": {}, "answerSchema": {"type": "boolean"}}
    asked = {"interrupt_id": "i1", "run_id": "r1", "call": 0, "function": "teaDrop", "message": "Drop it?"}
    async with await Store.open(url) as store:
        await Starting(store).start(run)
        async with store.transaction() as connection:
            row = {**asked, "answerer": "ada", "content": orjson.dumps(content), "status": "pending", "asked_at": 1.0}
            await connection.execute(insert(interrupts).values(row))


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Line]:
    url = f"sqlite:///{tmp_path}/runs.sqlite"
    monkeypatch.setenv("GRUNDLAG_STORE", url)
    monkeypatch.delenv("GRUNDLAG_URL", raising=False)
    asyncio.run(write(url))
    before = signal.getsignal(signal.SIGTERM)
    yield Line(capsys)
    signal.signal(signal.SIGTERM, before)  # a command heeds it for as long as its process lives


def test_runs_and_questions_are_listed(line: Line) -> None:
    assert [each["runId"] for each in line.read("runs", "--user", "ada", "--status", "running")] == ["r1"]
    assert line.read("runs", "--user", "bob") == []
    assert [each["interruptId"] for each in line.read("inbox", "--user", "ada")] == ["i1"]
    assert line.read("inbox", "--user", "bob") == []
    assert "Drop it?" in line.tell("inbox")[1]
    assert "there are no runs that fit" in line.tell("runs", "--status", "failed")[1]


def test_a_question_is_answered_by_whom_it_is_for_and_once(line: Line) -> None:
    code, told = line.tell("answer", "i1", "true")
    assert (code, "for 'ada' to answer: add --by ada" in told) == (2, True)
    code, told = line.tell("answer", "i1", "true", "--by", "bob")
    assert (code, "and not for 'bob'" in told) == (1, True)
    code, told = line.tell("answer", "i1", "7", "--by", "ada")
    assert (code, "is not valid" in told) == (1, True)
    code, told = line.tell("answer", "i1", "--by", "ada")
    assert (code, "is not answered: answer on a terminal" in told) == (3, True)
    code, told = line.tell("answer", "i1", "true", "--by", "ada")
    assert (code, "answered: `grundlag-bus run show r1 --follow`" in told) == (0, True)
    for again in (["false"], ["--reject", "no"], []):
        code, told = line.tell("answer", "i1", *again, "--by", "ada")
        assert (code, "was answered by 'ada' before" in told) == (1, True)


def test_the_id_of_a_run_is_told_apart_from_that_of_a_question(line: Line) -> None:
    code, told = line.tell("answer", "r1", "true", "--by", "ada")
    assert (code, "is a run: answer what it asks, i1" in told) == (1, True)
    assert "There is no question 'x' in this store" in line.tell("answer", "x", "true")[1]
    code, told = line.tell("run", "show", "x")
    assert (code, "There is no run 'x'" in told) == (1, True)


def test_a_run_is_shown_and_asked_to_end(line: Line) -> None:
    code, told = line.tell("run", "show", "r1")
    assert (code, "status   running" in told, "grundlag-bus answer i1 --by ada" in told) == (0, True, True)
    assert [each["kind"] for each in line.read("run", "show", "r1")["entries"]] == ["run.started"]
    code, told = line.tell("run", "retry", "r1")
    assert (code, "only one that failed or was cancelled" in told) == (1, True)
    assert "is to end" in line.tell("run", "cancel", "r1")[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runs", "--store", "sqlite:///no/such/file"], "There is no store in"),
        (["runs", "--store", ""], "Runs are in a store"),
        (["runs", "--status", "odd"], "no run is 'odd'"),
        (["host"], "Runs need a bus"),
        (["run", "call", "demoAdd", "--url", "http://host"], "An HTTP host is called"),
        (["run", "script", "x", "--url", "amqp://h", "--input", "a=b"], "is no NAME=JSON"),
        (["answer", "i1", "7", "--reject", "no"], "exclude each other"),
        (["answer", "i1", "--edit", "{}"], "Runs need a bus"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(line: Line, arguments: list[str], told: str) -> None:
    code, said = line.tell(*arguments)
    assert (code, told in said, len(said.splitlines())) == (2, True, 1), said
