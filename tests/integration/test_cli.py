"""The command line in a process of its own, without a bus."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, CommandLine

FORM = "tests.support.questionnaire:registry"
DEMO = "grundlag_bus.demo:registry"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


# --- call -------------------------------------------------------------------------------------------------------------


def test_a_completed_call_prints_the_response_object_and_nothing_else(cli: CommandLine) -> None:
    ended = cli.run("call", "demoAdd", '{"a":1,"b":2}', "--registry", DEMO, "--json")
    assert (ended.code, ended.out, ended.err) == (0, '{"status":"completed","result":{"sum":3},"items":[]}\n', "")


def test_the_input_may_come_from_stdin(cli: CommandLine) -> None:
    ended = cli.run("call", "demoAdd", "-", "--registry", DEMO, "--json", given='{"a":1,\n"b":2}')
    assert ended.response["result"] == {"sum": 3}


def test_without_json_only_the_result_is_on_stdout(cli: CommandLine) -> None:
    ended = cli.run("call", "demoCountdown", '{"start":1}', "--registry", DEMO)
    assert (ended.code, json.loads(ended.out)) == (0, {"steps": [1, 0]})
    assert [line.split(": ", 1)[1] for line in ended.err.splitlines()] == [
        'item countdownStep {"left":1}',
        'item countdownStep {"left":0}',
    ]


def test_a_failed_call_exits_1_with_the_response_object(cli: CommandLine) -> None:
    given = '{"code":"out_of_stock","message":"Nothing left.","retryable":true}'
    ended = cli.run("call", "demoFail", given, "--registry", DEMO, "--json")
    assert (ended.code, ended.err) == (1, "")
    assert ended.response == {
        "status": "failed",
        "code": "out_of_stock",
        "message": "Nothing left.",
        "retryable": True,
        "items": [],
    }


def test_a_failed_call_is_told_in_a_sentence(cli: CommandLine) -> None:
    given = '{"code":"out_of_stock","message":"Nothing left."}'
    ended = cli.run("call", "demoFail", given, "--registry", DEMO)
    assert (ended.code, ended.out) == (1, "")
    assert ended.sentence == "grundlag-bus: demoFail failed (out_of_stock): Nothing left."


def test_an_input_that_does_not_fit_exits_1_and_names_the_field(cli: CommandLine) -> None:
    ended = cli.run("call", "demoAdd", '{"a":1,"b":"x"}', "--registry", DEMO, "--json")
    assert (ended.code, ended.response["code"]) == (1, "input_invalid")
    assert ended.response["details"]["issues"][0]["path"] == ["b"]


def test_a_deadline_ends_the_call(cli: CommandLine) -> None:
    ended = cli.run("call", "demoSleep", '{"seconds":60}', "--registry", DEMO, "--timeout", "0.2", "--json")
    assert (ended.code, ended.response["code"]) == (1, "deadline_exceeded")


def test_an_interrupt_that_nobody_can_answer_exits_3_with_the_response_object(cli: CommandLine) -> None:
    ended = cli.run("call", "formOrder", "--registry", FORM, "--json")
    assert (ended.code, ended.err, ended.response["status"]) == (3, "", "interrupted")
    assert set(ended.response) >= {"interruptId", "message", "data", "state", "answerSchema", "expiresAt"}


def test_an_interrupt_that_nobody_can_answer_is_told_without_its_control_characters(cli: CommandLine) -> None:
    ended = cli.run("call", "formOrder", "--registry", FORM)
    assert (ended.code, ended.out) == (3, "")
    assert '"Order \\x1b[31mTea?"' in ended.sentence
    assert "\x1b" not in ended.err


def test_a_call_that_asked_goes_on_with_what_was_printed_of_it(cli: CommandLine, tmp_path: Path) -> None:
    given = '{"title":"Tea","startsAt":"2026-12-01T12:00:00Z"}'
    created = cli.run("call", "calendarCreateEvent", given, "--registry", DEMO, "--json").response["result"]
    delete = ("call", "calendarDeleteEvent", json.dumps(created), "--registry", DEMO, "--json")
    asked = cli.run(*delete)
    (tmp_path / "asked.json").write_text(asked.out)
    unanswered = cli.run(*delete, "--state", "asked.json")
    assert (unanswered.code, unanswered.response) == (3, asked.response)
    ended = cli.run(*delete, "--state", "asked.json", "--answer", '{"approved":true}')
    assert (ended.code, ended.response["result"]["deleted"]) == (0, True)


@pytest.mark.parametrize("more", [("--answer", "true"), ("--state", "asked.json")])
def test_a_call_that_did_not_ask_cannot_go_on(cli: CommandLine, tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "asked.json").write_text('{"status":"completed","result":1,"items":[]}')
    ended = cli.run("call", "demoAdd", "{}", "--registry", DEMO, *more)
    assert (ended.code, "--json" in ended.sentence) == (2, True)


def test_what_an_action_raises_is_logged_as_a_json_line_and_stdout_stays_clean(cli: CommandLine) -> None:
    ended = cli.run("call", "formCrash", "--registry", FORM, "--json")
    assert (ended.code, ended.response["code"]) == (1, "internal")
    entry = json.loads(ended.err)
    assert (entry["event"], entry["level"]) == ("action_raised", "error")
    assert entry["reference"] == ended.response["details"]["reference"]
    assert "KeyError: 'Tea'" in entry["exception"]


def test_an_unknown_function_is_told_with_its_neighbours(cli: CommandLine) -> None:
    ended = cli.run("call", "demo.ad", "{}", "--registry", DEMO, "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "did you mean demoAdd" in ended.sentence


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"a":1', "EOF while parsing"),
        ('{"a":18446744073709551616,"b":2}', "a: the integer does not fit 64 bits"),
        ('{"a":NaN}', ""),
        ("", "EOF"),
    ],
)
def test_json_that_cannot_be_read_is_usage(cli: CommandLine, given: str, told: str) -> None:
    ended = cli.run("call", "demoAdd", given, "--registry", DEMO, "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "The input cannot be used" in ended.sentence
    assert told in ended.sentence


def test_ctrl_c_ends_a_call_with_130_and_says_what_becomes_of_the_action(cli: CommandLine, tmp_path: Path) -> None:
    given = json.dumps({"folder": str(tmp_path)})
    with cli.start("call", "formHold", given, "--registry", FORM) as started:
        while not (tmp_path / "held").exists():
            assert started.process.poll() is None
        started.process.send_signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.out) == (130, "")
    assert (
        ended.sentence == "grundlag-bus: formHold is cancelled: the action is stopped; what it did so far stays done."
    )


# --- where calls go ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("call", "demoAdd"), ("tools",), ("manifest",), ("manifest", "show")])
def test_neither_a_bus_nor_a_registry_is_usage(cli: CommandLine, command: tuple[str, ...]) -> None:
    ended = cli.run(*command)
    assert (ended.code, ended.out) == (2, "")
    assert "--url" in ended.sentence
    assert "--registry" in ended.sentence


def test_a_registry_on_the_line_counts_before_a_bus_in_the_environment(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path, GRUNDLAG_URL="amqp://guest:guest@127.0.0.1:1/")
    assert cli.run("call", "demoAdd", '{"a":1,"b":2}', "--registry", DEMO, "--json").code == 0


def test_a_bus_and_a_registry_on_the_line_contradict(cli: CommandLine) -> None:
    ended = cli.run("tools", "--registry", DEMO, "--url", "amqp://guest:s3cret@127.0.0.1:1/")
    assert ended.code == 2
    assert "use one of them" in ended.sentence
    assert "s3cret" not in ended.err


@pytest.mark.parametrize("command", [("call", "demoAdd", "{}"), ("tools",), ("worker", DEMO), ("manifest", "show")])
def test_a_bus_inside_another_process_is_refused(cli: CommandLine, command: tuple[str, ...]) -> None:
    ended = cli.run(*command, "--url", "memory://shared")
    assert ended.code == 2
    assert "memory:// is a bus inside one process" in ended.sentence


def test_a_worker_without_a_bus_is_usage(cli: CommandLine) -> None:
    ended = cli.run("worker", DEMO)
    assert ended.code == 2
    assert "GRUNDLAG_URL" in ended.sentence


@pytest.mark.parametrize("name", ["registry", "make_registry"])
def test_a_name_may_be_a_registry_or_an_async_function(cli: CommandLine, name: str) -> None:
    ended = cli.run("tools", "--registry", f"tests.support.questionnaire:{name}", "--json")
    assert "formOrder" in {tool["functionName"] for tool in json.loads(ended.out)}


def test_the_current_directory_is_looked_in(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from tests.support.questionnaire import registry\n")
    assert CommandLine(tmp_path).run("tools", "--registry", "mine:registry").code == 0


def test_an_error_inside_the_users_module_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import json\n\njson.loads('{')\n")
    ended = CommandLine(tmp_path).run("tools", "--registry", "mine:registry")
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path}/mine.py:3 raises JSONDecodeError" in ended.sentence


# --- tools, manifest, keys --------------------------------------------------------------------------------------------


def test_tools_are_listed_with_what_they_need(cli: CommandLine) -> None:
    ended = cli.run("tools", "--registry", DEMO)
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    row = lines.index("calendarDeleteEvent calendar deleteEvent eventId: string")
    assert lines[row + 1] == "asks a person for approved: boolean, comment?: string"


def test_the_manifest_is_shown_when_no_command_is_named(cli: CommandLine) -> None:
    ended = cli.run("manifest", "--registry", DEMO, "--json")
    assert [provider["id"] for provider in ended.response["providers"]] == ["calendar", "demo"]
    assert cli.run("manifest", "show", "--registry", DEMO, "--json").out == ended.out


def test_a_key_file_is_for_its_owner_alone_and_never_overwritten(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("keys", "new", "my.keys").code == 0
    written = tmp_path / "my.keys"
    before = written.read_bytes()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    again = cli.run("keys", "new", "my.keys")
    assert again.code == 2
    assert "left alone" in again.sentence
    assert written.read_bytes() == before


def test_keys_in_a_folder_that_is_not_there_are_usage(cli: CommandLine) -> None:
    ended = cli.run("keys", "new", "nowhere/my.keys")
    assert ended.code == 2
    assert "nowhere/my.keys" in ended.sentence


def test_a_full_disk_is_told_in_a_sentence(cli: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            cli.command("tools", "--registry", FORM, "--json"),
            cwd=cli.directory,
            env=cli.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "No space left on device" in done.stderr


# --- the line itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ["frob"],
        ["call"],
        ["tools", "--frob"],
        ["call", "a", "b", "c"],
        ["worker", "a:b", "--concurrency", "0"],
        ["keys"],
    ],
)
def test_a_wrong_line_is_one_sentence_and_where_to_look(cli: CommandLine, line: list[str]) -> None:
    ended = cli.run(*line)
    assert (ended.code, ended.out) == (2, "")
    assert "--help`" in ended.sentence


def test_a_defect_is_told_with_its_place_and_traced_only_on_demand(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import grundlag_bus.cli.keys as k\n"
        "def broken(file): raise RuntimeError('amqp://u:s3cret@host')\n"
        "k.write_new = broken\n"
    )
    cli = CommandLine(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    ended = cli.run("keys", "new", "k")
    assert ended.code == 1
    assert "RuntimeError in app.py" in ended.sentence
    assert "--debug" in ended.sentence
    assert "s3cret" not in ended.err
    assert "Traceback" in cli.run("keys", "new", "k", "--debug").err
    cli = CommandLine(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}", GRUNDLAG_DEBUG="1")
    assert "Traceback" in cli.run("keys", "new", "k").err
