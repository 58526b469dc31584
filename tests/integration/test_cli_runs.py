"""Runs on the command line: started, asked about, answered and ended by processes that come and go."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, Started

pytestmark = pytest.mark.timeout(600)  # a dozen processes one after the other, on whatever else the machine does

DEMO = "grundlag_bus.demo:registry"

SCRIPT = """# Plan something, and take it back
event = await calendarCreateEvent(title=title, startsAt="2026-12-01T12:00:00Z")
print("made it")
deleted = await calendarDeleteEvent(eventId=event["eventId"])
[deleted["deleted"], deleted["comment"]]
"""


@pytest.fixture
def cli(tmp_path: Path, amqp_url: str, namespace: str) -> CommandLine:
    (tmp_path / "plan.py").write_text(SCRIPT)
    store = f"sqlite:///{tmp_path}/runs.sqlite"
    return CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace, GRUNDLAG_STORE=store)


@contextmanager
def serving(cli: CommandLine, *arguments: str) -> Iterator[Started]:
    with cli.start(*arguments) as process:
        process.wait_for("serving")
        yield process


def started(cli: CommandLine) -> str:
    ended = cli.run("run", "script", "plan.py", "--input", 'title="Lunch"', "--user", "ada")
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out.strip()


def listed(cli: CommandLine, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli.run(*arguments, "--json").out)
    return found


def question(cli: CommandLine, within: float = 60.0) -> str:
    """Wait until the one run waits, and return the id of what it asks."""
    end = time.monotonic() + within
    while not listed(cli, "runs", "--status", "waiting"):
        assert time.monotonic() < end, "Nothing is asked."
    (one,) = listed(cli, "inbox", "--user", "ada")
    return str(one["interruptId"])


def test_a_run_outlives_its_hosts_and_is_answered_once(cli: CommandLine) -> None:
    with serving(cli, "worker", DEMO):
        with serving(cli, "host") as host:
            run_id = started(cli)
            asked = question(cli)
            host.process.send_signal(signal.SIGKILL)
        answered = cli.run("answer", asked, '{"approved": true, "comment": "yes"}', "--by", "ada")
        assert (answered.code, f"run show {run_id}" in answered.sentence) == (0, True)
        with serving(cli, "host") as host, cli.start("run", "show", run_id, "--follow", "--json") as follower:
            lines = [json.loads(line) for line in follower.end(within=60).out.splitlines()]
            host.process.terminate()
            assert host.end().code == 0
    assert (lines[-1]["status"], lines[-1]["value"]) == ("completed", [True, "yes"])
    assert [line["kind"] for line in lines[:-1]].count("called") == 2
    again = cli.run("answer", asked, '{"approved": false}', "--by", "ada")
    assert (again.code, "was answered by 'ada' before" in again.sentence) == (1, True)
    shown = cli.run("run", "show", run_id)
    assert '2 calendarDeleteEvent is answered by ada: {"approved":true,"comment":"yes"}' in shown.out


def test_who_waits_is_asked_on_the_terminal_and_told_of_a_missing_host(cli: CommandLine) -> None:
    with serving(cli, "host"):
        pass  # the store is made
    with serving(cli, "worker", DEMO):
        arguments = ("run", "script", "plan.py", "--input", 'title="Tea"', "--user", "ada", "--wait", "--json")
        with cli.on_terminal(*arguments) as terminal:
            terminal.expect("is started.")
            terminal.expect("no host has begun with the run", within=60)
            with serving(cli, "host"):
                terminal.expect("Delete", within=60)
                terminal.answer("n")
                terminal.answer("better not")
                ended = terminal.end(within=60)
    assert ended.code == 0
    assert ended.response["value"] == [False, "better not"]


def test_whoever_waits_is_told_how_a_run_ends_and_may_leave_it_alone(cli: CommandLine) -> None:
    with serving(cli, "worker", DEMO), serving(cli, "host", "--model", "test") as host:
        agent = cli.run("run", "agent", "What is 0 and 0?", "--tool", "demoAdd", "--wait")
        assert (agent.code, agent.out) == (0, '{"demoAdd":"{\\"sum\\":0}"}\n'), agent
        waited = cli.run("run", "script", "plan.py", "--input", 'title="Tea"', "--wait")
        assert waited.code == 3
        assert "`grundlag-bus answer " in waited.err
        (waiting,) = listed(cli, "runs", "--status", "waiting")
        (asked,) = listed(cli, "inbox")
        rejected = cli.run("answer", asked["interruptId"], "--reject", "not today", "--by", "bob", "--wait")
        assert (rejected.code, "(script_failed, line 4)" in rejected.err) == (1, True)
        assert "bob rejected the call: not today" in rejected.err
        seen = cli.run("run", "retry", waiting["runId"], "--dry-run")
        assert (seen.code, "calendarCreateEvent" in seen.sentence) == (0, True)
        with cli.on_terminal("run", "call", "demoSleep", '{"seconds": 60}', "--wait") as terminal:
            terminal.expect("is started.")
            terminal.type("\x03")
            terminal.expect("the run goes on without this")
            assert terminal.end().code == 130
        (going,) = listed(cli, "runs", "--status", "running")
        assert cli.run("run", "cancel", going["runId"]).code == 0
        ended = cli.run("run", "show", going["runId"], "--follow")
        assert (ended.code, "was cancelled" in ended.err) == (0, True)
        host.process.terminate()
        assert host.end().code == 0
