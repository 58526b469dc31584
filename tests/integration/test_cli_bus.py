"""The command line over RabbitMQ: workers in processes of their own, and what is told when the bus is not there."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.command_line import CommandLine, Started

DEMO = "grundlag_bus.demo:registry"
FORM = "tests.support.questionnaire:registry"
LANES = "tests.support.lanes:registry"


@pytest.fixture
def cli(tmp_path: Path, amqp_url: str, namespace: str) -> CommandLine:
    return CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace)


@contextmanager
def serving(cli: CommandLine, *arguments: str) -> Iterator[Started]:
    with cli.start("worker", *arguments) as worker:
        worker.wait_for("serving")
        yield worker


def wait_for(file: Path, within: float = 30.0) -> None:
    end = time.monotonic() + within
    while not file.exists():
        assert time.monotonic() < end, f"{file} was not written"
        time.sleep(0.01)


def with_parts(url: str, *, login: str | None = None, port: int | None = None, vhost: str | None = None) -> str:
    parts = urlsplit(url)
    credentials = login or f"{parts.username}:{parts.password}"
    path = parts.path if vhost is None else f"/{vhost}"
    return f"amqp://{credentials}@{parts.hostname}:{port or parts.port}{path}"


def test_ctrl_c_cancels_the_action_at_its_worker(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    given = json.dumps({"folder": str(tmp_path)})
    with serving(cli, FORM, "--keys", "shared.keys"), cli.on_terminal("call", "formHold", given) as call:
        call.expect("formHold: 1 of 2, holding")
        wait_for(tmp_path / "held")
        call.type("\x03")
        call.expect("formHold is cancelled: the action is stopped by its worker")
        assert call.end().code == 130
        wait_for(tmp_path / "cancelled")


def test_workers_are_listed_with_what_they_serve(cli: CommandLine) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    with serving(cli, FORM, "--keys", "shared.keys"), serving(cli, DEMO, "--keys", "shared.keys"):
        ended = cli.run("workers", "--json")
        shown = cli.run("workers").out
    listed = json.loads(ended.out)
    assert sorted(worker["providers"] for worker in listed) == [["calendar", "demo"], ["form"]]
    assert all(worker["started"] and worker["name"] in shown for worker in listed)
    ended = cli.run("workers", "--wait", "0.1")
    assert ended.code == 1
    assert "no worker of namespace" in ended.sentence
    assert "There is no namespace 'typo'" in cli.run("workers", "--namespace", "typo").sentence


def test_two_workers_serve_a_call_from_a_third_process(tmp_path: Path, amqp_url: str, namespace: str) -> None:
    cli = CommandLine(tmp_path)
    bus = ("--url", amqp_url, "--namespace", namespace)
    with serving(cli, DEMO, *bus), serving(cli, DEMO, *bus):
        ended = cli.run("call", "demoAdd", '{"a":1,"b":2}', *bus, "--json")
    assert (ended.code, ended.out, ended.err) == (0, '{"status":"completed","result":{"sum":3},"items":[]}\n', "")


def test_a_question_is_answered_on_the_terminal_and_taken_by_another_worker(cli: CommandLine) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    with (
        serving(cli, FORM, "--keys", "shared.keys") as first,
        cli.on_terminal("call", "formTwice", "--json") as terminal,
    ):
        terminal.expect("First?")
        with serving(cli, FORM, "--keys", "shared.keys"):
            first.process.terminate()
            assert first.end().code == 0
            terminal.answer("20")
            terminal.expect("Second?")
            terminal.answer("22")
            ended = terminal.end()
    assert (ended.code, ended.response["result"]) == (0, {"number": 42})


def test_workers_with_a_ledger_share_it_and_others_do_not_start(cli: CommandLine, tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path}/ledger.sqlite"
    with serving(cli, LANES, "--ledger", ledger, "--processes", "2"):
        for address in ((), ("--ledger", f"sqlite:///{tmp_path}/another.sqlite")):
            ended = cli.run("worker", LANES, *address)
            assert ended.code == 2
            assert "share a ledger" in ended.sentence


def test_a_ledger_that_cannot_be_opened_is_usage(cli: CommandLine, tmp_path: Path) -> None:
    ended = cli.run("worker", LANES, "--ledger", f"sqlite:///{tmp_path}/missing/ledger.sqlite")
    assert ended.code == 2
    assert "missing/ledger.sqlite" in ended.sentence


def test_an_interrupting_worker_without_keys_is_usage(cli: CommandLine) -> None:
    ended = cli.run("worker", FORM)
    assert ended.code == 2
    assert "grundlag-bus keys new FILE" in ended.sentence


@pytest.mark.parametrize("keys", ["missing.keys", "broken.keys"])
def test_a_bad_key_file_is_usage(cli: CommandLine, tmp_path: Path, keys: str) -> None:
    (tmp_path / "broken.keys").write_text('{"keys": []}')
    ended = cli.run("worker", FORM, "--keys", keys)
    assert ended.code == 2
    assert keys in ended.sentence
    assert "grundlag-bus keys new" in ended.sentence


def test_a_worker_that_is_told_to_end_finishes_what_runs(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    given = json.dumps({"folder": str(tmp_path)})
    with serving(cli, FORM, "--keys", "shared.keys") as worker, cli.start("call", "formHold", given, "--json") as call:
        wait_for(tmp_path / "held")
        worker.process.terminate()
        assert worker.wait_for("draining")["calls"] == 1
        (tmp_path / "release").touch()
        assert (call.end().code, worker.end().code) == (0, 0)


def test_a_closed_terminal_drains_a_worker_however_often_it_says_so(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    given = json.dumps({"folder": str(tmp_path)})
    with serving(cli, FORM, "--keys", "shared.keys") as worker, cli.start("call", "formHold", given, "--json") as call:
        wait_for(tmp_path / "held")
        worker.process.send_signal(signal.SIGHUP)
        assert worker.wait_for("draining")["signal"] == "SIGHUP"
        worker.process.send_signal(signal.SIGHUP)
        (tmp_path / "release").touch()
        assert (call.end().code, worker.end().code) == (0, 0)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_worker_at_once(cli: CommandLine, tmp_path: Path, which: signal.Signals) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    given = json.dumps({"folder": str(tmp_path)})
    with serving(cli, FORM, "--keys", "shared.keys") as worker, cli.start("call", "formHold", given, "--json") as call:
        wait_for(tmp_path / "held")
        worker.process.send_signal(which)
        worker.wait_for("draining")
        worker.process.send_signal(which)
        assert worker.end(within=10).code == 128 + which
        with serving(cli, FORM, "--keys", "shared.keys"):  # what was given back runs elsewhere
            (tmp_path / "release").touch()
            assert call.end().code == 0


def test_a_worker_serves_the_lanes_and_providers_that_its_line_names(cli: CommandLine) -> None:
    long = ("--lane", "long", "--concurrency", "8", "--concurrency", "long=2")
    with cli.start("worker", LANES, *long) as slow, cli.start("worker", LANES, "--provider", "swift") as swift:
        told = [worker.wait_for("serving") for worker in (slow, swift)]
        assert [(entry["providers"], entry["lanes"]) for entry in told] == [
            (["heavy"], ["long"]),
            (["swift"], ["main"]),
        ]
        ran = [cli.run("call", action, "--json").response["result"]["pid"] for action in ("heavyWhoSlowly", "swiftWho")]
        assert ran == [slow.process.pid, swift.process.pid]
        assert cli.run("call", "heavyWhoAlso", "--timeout", "5", "--json").response["code"] == "provider_unavailable"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (("--provider", "swfit"), "no provider 'swfit': it has 'heavy', 'swift'"),
        (("--lane", "slow"), "no lane 'slow': it has 'long', 'main'"),
        (("--lane", "long", "--provider", "swift"), "Nothing is left to serve of 'swift' in 'long'"),
        (("--concurrency", "slow=3"), "no lane 'slow'"),
    ],
)
def test_a_share_that_is_not_there_is_usage(cli: CommandLine, line: tuple[str, ...], told: str) -> None:
    ended = cli.run("worker", LANES, *line)
    assert ended.code == 2
    assert told in ended.sentence


def test_a_retired_provider_is_gone_until_its_worker_starts_again(cli: CommandLine) -> None:
    with serving(cli, DEMO):
        pass
    assert cli.run("manifest", "retire", "demo").code == 0
    ended = cli.run("manifest", "--json")
    assert [provider["id"] for provider in ended.response["providers"]] == ["calendar"]
    again = cli.run("manifest", "retire", "demo")
    assert again.code == 2
    assert "did you mean calendar" in again.sentence


def test_a_submitted_call_is_started_when_it_is_due_also_by_a_worker_that_comes_later(
    cli: CommandLine, tmp_path: Path
) -> None:
    assert cli.run("keys", "new", "shared.keys").code == 0
    given = json.dumps({"folder": str(tmp_path)})
    (tmp_path / "release").touch()
    with serving(cli, FORM, "--keys", "shared.keys"):
        pass
    ended = cli.run("submit", "formHold", given, "--delay", "2", "--json")
    assert (ended.code, len(ended.response["callId"])) == (0, 32)
    assert not (tmp_path / "held").exists()
    with serving(cli, FORM, "--keys", "shared.keys"):
        wait_for(tmp_path / "held")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (("demoAdd", '{"a": "one"}'), 1, "input_invalid"),
        (("demoAdd", "{}", "--delay", "2000000"), 2, "cannot be delayed"),
        (("demoAdd", "{}", "--delay", "-1"), 2, "--delay"),
        (("demoAd", "{}"), 2, "did you mean demoAdd"),
    ],
)
def test_what_cannot_be_submitted_is_told(cli: CommandLine, line: tuple[str, ...], code: int, told: str) -> None:
    with serving(cli, DEMO):
        ended = cli.run("submit", *line)
    assert (ended.code, ended.out) == (code, "")
    assert told in ended.sentence


def test_an_empty_namespace_says_what_to_start(cli: CommandLine) -> None:
    ended = cli.run("call", "demoAdd")
    assert ended.code == 2
    assert "grundlag-bus worker" in ended.sentence
    assert cli.run("tools", "--json").out == "[]\n"


@pytest.mark.parametrize("command", [("call", "demoAdd"), ("tools",), ("manifest",), ("worker", DEMO), ("demo",)])
def test_a_bus_that_refuses_exits_4_without_the_password(
    tmp_path: Path, amqp_url: str, command: tuple[str, ...]
) -> None:
    cli = CommandLine(tmp_path)
    ended = cli.run(*command, "--url", with_parts(amqp_url, login="guest:s3cret"))
    assert (ended.code, ended.out) == (4, "")
    assert "correct user and password" in ended.sentence
    assert "s3cret" not in ended.err


def test_an_unknown_vhost_exits_4(tmp_path: Path, amqp_url: str) -> None:
    ended = CommandLine(tmp_path).run("tools", "--url", with_parts(amqp_url, vhost="nowhere"))
    assert ended.code == 4
    assert "vhost nowhere not found" in ended.sentence


def test_a_port_where_nothing_listens_exits_4_within_the_timeout(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    ended = cli.run("call", "demoAdd", "--url", "amqp://guest:s3cret@127.0.0.1:1/", "--timeout", "1", within=20)
    assert ended.code == 4
    assert "Nothing listens at" in ended.sentence
    assert "start the broker" in ended.sentence
    assert "s3cret" not in ended.sentence


@pytest.mark.parametrize(
    "url", ["nonsense", "amqp://u:s3cret@host:port/", "ftp://u:s3cret@host/", "amqp://u:s3cret/x@h"]
)
def test_an_address_that_cannot_be_read_is_usage(tmp_path: Path, url: str) -> None:
    ended = CommandLine(tmp_path).run("tools", "--url", url)
    assert (ended.code, ended.out) == (2, "")
    assert "amqp://" in ended.sentence
    assert "s3cret" not in ended.err


# --- demo -------------------------------------------------------------------------------------------------------------


def test_the_demo_starts_two_workers_and_leaves_none(cli: CommandLine) -> None:
    ended = cli.run("demo")
    assert (ended.code, ended.err) == (0, "")
    workers = {line.split("(pid ")[1].split(")")[0] for line in ended.out.splitlines() if "(pid " in line}
    assert len(workers) == 2
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_demo_that_is_told_to_end_takes_its_workers_with_it(cli: CommandLine) -> None:
    with cli.on_terminal("demo") as terminal:
        terminal.expect("> ")
        workers = Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
        assert len(workers) == 2
        terminal.process.terminate()
        assert terminal.end().code == 128 + signal.SIGTERM
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
