"""The command line on a terminal: questions are asked there, and stdout stays the result's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

FORM = "tests.support.questionnaire:registry"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


def test_every_kind_of_answer_is_asked_for_and_bad_ones_are_told_and_asked_again(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formOrder", "--registry", FORM, "--user", "ada", "--json") as terminal:
        terminal.expect("Order \\x1b[31mTea?")
        terminal.expect("approved: Whether to do it (y or n)")
        terminal.answer("maybe")
        terminal.expect("not valid: type y or n")
        terminal.answer("y")
        terminal.expect("2  large")
        terminal.answer("3")
        terminal.expect("not valid")
        terminal.answer("2")
        terminal.answer("A")
        terminal.expect("not valid")
        terminal.answer("Ada Łovelace")
        terminal.answer("many")
        terminal.expect("not valid: type a whole number")
        terminal.answer("10")
        terminal.expect("not valid")
        terminal.answer("3")
        terminal.answer("2.5")
        terminal.answer("tomorrow")
        terminal.expect("not valid")
        terminal.answer("2026-09-18")
        terminal.answer('{"city": "Berlin"}')
        terminal.expect("not valid")
        terminal.answer('{"city": "Berlin", "zip": 10115}')
        terminal.answer('["a", "b"]')
        terminal.expect("comment: Why, or why not (text; Enter leaves it out)")
        terminal.answer("")
        terminal.answer("no")
        ended = terminal.end()
    assert ended.code == 0
    assert ended.response["result"] == {
        "answer": {
            "approved": True,
            "size": "large",
            "name": "Ada Łovelace",
            "count": 3,
            "price": 2.5,
            "day": "2026-09-18",
            "address": {"city": "Berlin", "zip": 10115},
            "tags": ["a", "b"],
            "hurry": False,
        },
        "user": "ada",
        "by": "ada",
    }


def test_an_answer_that_only_the_action_can_judge_is_asked_for_again(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formTens", "--registry", FORM, "--json") as terminal:
        for number in "12":
            terminal.answer(number)
        terminal.expect("the two numbers must make 10")
        for number in "46":
            terminal.answer(number)
        ended = terminal.end()
    assert (ended.code, ended.response["result"]) == (0, {"number": 4})


def test_an_action_may_ask_again_after_an_answer(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formTwice", "--registry", FORM, "--json") as terminal:
        terminal.expect("First?")
        terminal.answer("20")
        terminal.expect("Second?")
        terminal.answer("22")
        ended = terminal.end()
    assert (ended.code, ended.response["result"]) == (0, {"number": 42})


def test_ending_the_input_leaves_the_interrupt_pending(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formTwice", "--registry", FORM, "--json") as terminal:
        terminal.expect("> ")
        terminal.type("\x04")
        ended = terminal.end()
    assert (ended.code, ended.response["status"]) == (3, "interrupted")


def test_ctrl_c_at_a_question_ends_the_command_quietly(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formTwice", "--registry", FORM) as terminal:
        terminal.expect("> ")
        terminal.type("\x03")
        ended = terminal.end()
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.rstrip().removesuffix("^C").endswith("> ")


def test_the_demo_asks_before_it_deletes(cli: CommandLine) -> None:
    with cli.on_terminal("demo") as terminal:
        for _ in ("the calls", "the script", "the agent"):
            terminal.expect("approved")
            terminal.answer("n")
            terminal.answer("not today")
        ended = terminal.end()
    assert ended.code == 0
    assert "It was not approved, and stays." in ended.out
    assert '{"imported":6,"clashes":1,"deleted":0}' in ended.out
    assert 'The agent says: "Deleted: False."' in ended.out


def test_what_is_logged_on_a_terminal_is_for_people(cli: CommandLine) -> None:
    with cli.on_terminal("call", "formCrash", "--registry", FORM, "--json") as terminal:
        ended = terminal.end()
    assert ended.code == 1
    assert "[error    ] action_raised" in ended.err
    assert not ended.err.startswith("{")
