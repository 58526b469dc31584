from __future__ import annotations

import pytest

from grundlag_bus.sandbox.script.complaints import line_of, type_error, wrong_for_sure
from grundlag_bus.sandbox.script.stubs import functions_of
from tests.support.script_tools import tools_of


async def _give(value: object, _: object) -> object:
    return value


FUNCTIONS = functions_of(tools_of(give=_give, take=_give))
SOURCE = "x = 1\nawait give(x, y)\nawait take(**x)\n"


def told(*problems: tuple[int, str, str]) -> str:
    return "".join(f"main.py:{line}:7: error[{rule}] {message}\n" for line, rule, message in problems)


def test_the_first_problem_comes_with_its_line_and_the_others_follow() -> None:
    error = type_error(SOURCE, told((2, "unresolved-reference", "No `y`"), (3, "call-non-callable", "No")), FUNCTIONS)
    assert str(error).startswith("Line 2: No `y`\n    await give(x, y)\nLine 3: No\n\nasync def give(")
    assert "async def take(" in str(error)
    assert error.problems == ((2, "unresolved-reference", "No `y`"), (3, "call-non-callable", "No"))


def test_of_no_python_nothing_else_is_told() -> None:
    error = type_error(SOURCE, told((1, "unresolved-reference", "No `y`"), (2, "invalid-syntax", "No")), FUNCTIONS)
    assert error.problems == ((2, "invalid-syntax", "No"),)


def test_many_problems_are_counted() -> None:
    error = type_error(SOURCE, told(*[(1, "unresolved-reference", "No")] * 9), FUNCTIONS)
    assert str(error).count("Line 1") == 5
    assert "and 4 more" in str(error)


@pytest.mark.parametrize(
    ("problem", "sure"),
    [
        ((2, "invalid-argument-type", "Expected `str`, found `Literal[1]`"), True),
        ((2, "invalid-argument-type", "Expected `str`, found `str | int`"), False),
        ((2, "invalid-argument-type", "Expected `str | None`, found `int`"), True),
        ((3, "invalid-argument-type", "Expected `str`, found `int`"), False),
        ((2, "no-matching-overload", "No overload of function `sum` matches arguments"), False),
        ((2, "unresolved-reference", "Name `y` used when not defined"), True),
    ],
)
def test_a_doubt_is_no_reason_to_refuse(problem: tuple[int, str, str], sure: bool) -> None:
    assert wrong_for_sure(SOURCE, told(problem)) is sure


def test_what_the_checker_tells_otherwise_is_no_doubt() -> None:
    assert wrong_for_sure(SOURCE, "it broke")
    assert "it broke" in str(type_error(SOURCE, "it broke", FUNCTIONS))


def test_a_line_that_there_is_not_has_no_text() -> None:
    assert (line_of("a\nb", 2), line_of("a\nb", 3), line_of("a", 0)) == ("b", None, None)
