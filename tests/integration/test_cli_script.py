"""`grundlag-bus script` in a process of its own, and on a terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.engines import engines

DEMO = "grundlag_bus.demo:registry"
FORM = "tests.support.questionnaire:registry"
TWICE = """
import asyncio
print('asking')
both = await asyncio.gather(formTwice(), formTwice())
[one['number'] for one in both]
"""


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_the_value_is_on_stdout_and_prints_are_beside_it(cli: CommandLine, written: Path) -> None:
    written.write_text("print('adding \\x1b[31m')\nawait demoAdd(first, 2)\n")
    ended = cli.run("script", str(written), "--registry", DEMO, "--inputs", '{"first": 1}')
    assert (ended.code, json.loads(ended.out), ended.err) == (0, {"sum": 3}, "adding \\x1b[31m\n")


def test_json_tells_value_prints_and_calls(cli: CommandLine) -> None:
    given = "print('adding')\n(await demoAdd(1, 2))['sum']"
    ended = cli.run("script", "-", "--registry", DEMO, "--json", given=given)
    assert (ended.code, ended.err) == (0, "")
    told = ended.response
    (call,) = told.pop("calls")
    assert told == {"status": "completed", "value": 3, "stdout": "adding\n"}
    assert (call["function"], call["status"], call["value"], call["line"]) == ("demoAdd", "completed", {"sum": 3}, 2)


def test_a_script_that_fails_exits_1_with_line_and_signature(cli: CommandLine) -> None:
    given = "await demoAdd(1, 2)\nawait demoFail('sold_out', 'None left.')"
    ended = cli.run("script", "-", "--registry", DEMO, given=given)
    assert (ended.code, ended.out) == (1, "")
    assert "Line 2: RuntimeError: sold_out: None left." in ended.err
    assert "async def demoFail(" in ended.err
    assert "before that it called demoAdd (completed), demoFail (failed)." in ended.err


def test_what_goes_wrong_is_an_object_with_json(cli: CommandLine) -> None:
    ended = cli.run("script", "-", "--registry", DEMO, "--json", given="await demoAdd('1', 2)")
    assert (ended.code, ended.err) == (1, "")
    error = ended.response["error"]
    assert (ended.response["status"], error["type"], error["line"]) == ("failed", "ScriptInvalidError", 1)
    assert error["source"] == "await demoAdd('1', 2)"
    assert "async def demoAdd(a: int, b: int)" in error["signature"]


@pytest.mark.parametrize("inputs", ["[1]", "{", '{"class": 1}', '{"demoAdd": 1}'])
def test_inputs_that_are_no_names_are_wrong_usage(cli: CommandLine, inputs: str) -> None:
    ended = cli.run("script", "-", "--registry", DEMO, "--inputs", inputs, given="1")
    assert (ended.code, ended.out) == (2, "")


def test_a_file_that_is_no_text_is_wrong_usage(cli: CommandLine, written: Path) -> None:
    written.write_bytes(b"\xff")
    assert cli.run("script", str(written), "--registry", DEMO).code == 2
    assert cli.run("script", str(written.with_name("none.py")), "--registry", DEMO).code == 1


def test_what_asks_without_a_terminal_exits_3_with_the_state(cli: CommandLine) -> None:
    ended = cli.run("script", "-", "--registry", FORM, "--json", given=TWICE)
    assert (ended.code, ended.response["status"]) == (3, "interrupted")
    assert [one["message"] for one in ended.response["pending"]] == ["First?", "First?"]
    assert (ended.response["state"]["v"], ended.response["stdout"]) == (1, "asking\n")
    told = cli.run("script", "-", "--registry", FORM, given=TWICE)
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith("asking\ngrundlag-bus: ")
    assert 'asks "First?" and "First?" and nobody answered' in told.err


def test_a_script_that_asked_goes_on_with_its_printed_state_and_calls_nothing_again(
    cli: CommandLine, tmp_path: Path
) -> None:
    given = (
        "made = await calendarCreateEvent(title, '2026-12-01T12:00:00Z')\n"
        "print('made it')\n"
        "(await calendarDeleteEvent(made['eventId']))['deleted']\n"
    )
    asked = cli.run("script", "-", "--inputs", '{"title": "Lunch"}', "--registry", DEMO, "--json", given=given)
    (question,) = asked.response["pending"]
    (tmp_path / "asked.json").write_text(asked.out)
    go_on = ("script", "--state", str(tmp_path / "asked.json"), "--registry", DEMO)
    wrong = cli.run(*go_on, "--answer", f'{question["interruptId"]}={{"approved": "perhaps"}}')
    assert (wrong.code, "approved" in wrong.sentence) == (2, True)
    ended = cli.run(*go_on, "--answer", f'{question["interruptId"]}={{"approved": true}}', "--json")
    assert (ended.code, ended.response["value"], ended.response["stdout"]) == (0, True, "made it\n")
    began = [entry["at"] for entry in asked.response["state"]["journal"] if entry["kind"] == "called"]
    assert [call["startedAt"] for call in ended.response["calls"]] == began


def test_a_state_is_answered_on_a_terminal_too(cli: CommandLine, tmp_path: Path) -> None:
    given = "await calendarDeleteEvent((await calendarCreateEvent('Tea', '2026-12-01T12:00:00Z'))['eventId'])"
    (tmp_path / "asked.json").write_text(cli.run("script", "-", "--registry", DEMO, "--json", given=given).out)
    with cli.on_terminal("script", "--state", "asked.json", "--registry", DEMO, "--json") as terminal:
        terminal.expect("Delete")
        terminal.answer("y")
        terminal.answer("")
        ended = terminal.end()
    assert (ended.code, ended.response["value"]["deleted"]) == (0, True)


def test_questions_are_asked_on_the_terminal_until_the_script_ends(cli: CommandLine, written: Path) -> None:
    written.write_text(TWICE)
    with cli.on_terminal("script", str(written), "--registry", FORM, "--json") as terminal:
        terminal.expect("asking")
        terminal.expect("First?")
        terminal.answer("20")
        terminal.expect("First?")
        terminal.answer("1")
        terminal.expect("Second?")
        terminal.answer("22")
        terminal.expect("Second?")
        terminal.answer("2")
        ended = terminal.end()
    assert (ended.code, ended.response["value"], ended.err.count("asking")) == (0, [42, 3], 1)


def test_an_answer_that_the_action_refuses_is_asked_for_again(cli: CommandLine, written: Path) -> None:
    written.write_text("await formTens()")
    with cli.on_terminal("script", str(written), "--registry", FORM, "--json") as terminal:
        for number in "12":
            terminal.answer(number)
        terminal.expect("the two numbers must make 10")
        for number in "46":
            terminal.answer(number)
        ended = terminal.end()
    assert (ended.code, ended.response["value"]) == (0, {"number": 4})


def test_ending_the_input_exits_3(cli: CommandLine, written: Path) -> None:
    written.write_text("await formTens()")
    with cli.on_terminal("script", str(written), "--registry", FORM, "--json") as terminal:
        terminal.expect("> ")
        terminal.type("\x04")
        ended = terminal.end()
    assert ended.code == 3


@pytest.mark.parametrize("source", ["while True:\n    pass\n", "await demoSleep(seconds=60)\n"])
def test_ctrl_c_ends_it_quietly_and_leaves_no_engine(cli: CommandLine, written: Path, source: str) -> None:
    written.write_text(source)
    with cli.on_terminal("script", str(written), "--registry", DEMO) as terminal:
        end = time.monotonic() + 30
        while not (running := engines(terminal.process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        terminal.type("\x03")
        ended = terminal.end()
    assert (ended.code, ended.out) == (130, "")
    assert "grundlag-bus:" not in ended.err
    assert not [one for one in running if Path(f"/proc/{one}").exists()]
