"""`grundlag-bus chaos` on somebody's broker: what it refuses, and what a run tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_it_needs_a_bus(cli: CommandLine) -> None:
    ended = cli.run("chaos")
    assert ended.code == 2
    assert "No bus is given" in ended.err


def test_an_embedded_bus_has_nothing_to_break(cli: CommandLine) -> None:
    ended = cli.run("chaos", "--url", "memory://")
    assert ended.code == 2
    assert "memory:// is a bus inside one process" in ended.err


def test_a_broker_that_is_not_there_is_told_before_anything_begins(cli: CommandLine) -> None:
    ended = cli.run("chaos", "--url", "amqp://guest:guest@127.0.0.1:1/")
    assert ended.code == 4
    assert "starting" not in ended.err


def test_the_report_and_the_histories_need_a_place(cli: CommandLine, tmp_path: Path, amqp_url: str) -> None:
    ended = cli.run("chaos", "--url", amqp_url, "--report", str(tmp_path / "no" / "report.html"))
    assert (ended.code, "There is no folder" in ended.err) == (2, True)
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    ended = cli.run("chaos", "--url", amqp_url, "--folder", str(full))
    assert (ended.code, "is not empty" in ended.err) == (2, True)


def test_a_run_tells_what_became_of_every_call_and_leaves_nothing(
    cli: CommandLine, tmp_path: Path, broker: Broker
) -> None:
    report, folder = tmp_path / "report.html", tmp_path / "histories"
    line = ("chaos", "--url", broker.url, "--seconds", "15", "--rate", "40", "--seed", "192", "--json")
    ended = cli.run(*line, "--report", str(report), "--folder", str(folder), within=240)
    told = ended.response
    # How soon calls complete again is for a machine that does nothing else to tell.
    assert [each for each in told["broken"] if each["promise"] != "slow recovery"] == []
    assert ended.code == (0 if told["kept"] else 1)
    assert (told["lost"], told["hung"], told["duplicatedEffects"]["inLedgerDatabase"]) == (0, 0, 0)
    ends = told["completed"] + told["interrupted"] + told["callerDied"] + sum(told["failed"].values())
    assert ends == told["attempted"] > 0
    assert told["marks"]  # of a seed that begins with faults which fit into so short a run
    assert "clock-jump" in told["leftOut"]
    assert {"node-kill", "node-restart", "memory-alarm"} <= set(told["leftOut"])
    assert "seed 192;" in ended.err
    assert "<svg" in report.read_text()
    assert list(folder.glob("caller-1.*.history"))
