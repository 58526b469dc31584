from __future__ import annotations

import sys
from typing import Any

import pytest

from grundlag_bus import ConfigurationError, EnginePool, Limits, NotJsonError, Sandbox, ScriptInvalidError, ToolContext
from tests.support.script_tools import tools_of


async def give(value: Any, _: ToolContext) -> Any:
    return value


@pytest.mark.parametrize("name", ["1st", "class", "print", "_hidden", "give"])
async def test_an_input_that_cannot_be_a_name_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be given"):
        await Sandbox(tools_of(give=give)).run("1", inputs={name: 1})


@pytest.mark.parametrize(("inputs", "told"), [({5: 1}, "given 5, which is no text"), ([1], "are a list: give a dict")])
async def test_inputs_that_are_no_names_are_told(inputs: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        await Sandbox({}).run("1", inputs=inputs)


async def test_an_input_that_is_no_json_is_told_with_its_place() -> None:
    with pytest.raises(NotJsonError) as raised:
        await Sandbox({}).run("1", inputs={"numbers": [1, {2}]})
    assert raised.value.issue.path == ("numbers", 1)


async def test_a_script_that_is_too_long_is_refused() -> None:
    with pytest.raises(ScriptInvalidError, match="has 11 characters, and the limit is 10"):
        await Sandbox({}, limits=Limits(source=10)).run("1 + 1 + 1 +")


async def test_a_script_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ScriptInvalidError):
        await Sandbox({}).run("'\ud800'")


def test_a_tool_that_there_is_not_cannot_be_allowed() -> None:
    with pytest.raises(ConfigurationError, match="no tool 'take'"):
        Sandbox(tools_of(give=give), allow=["give", "take"])


def test_the_prompt_names_the_inputs() -> None:
    sandbox = Sandbox(tools_of(give=give))
    assert "The script is given city, day: plain JSON data" in sandbox.prompt(inputs=["city", "day"])
    assert "The script is given" not in sandbox.prompt()


@pytest.mark.parametrize("limits", [{"time": 0}, {"in_flight": -1}, {"memory": 1000}, {"time": float("inf")}])
def test_no_limit_can_be_left_out(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Limits(**limits)


def test_a_pool_has_processes() -> None:
    with pytest.raises(ConfigurationError):
        EnginePool(0)


async def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "grundlag_bus.sandbox.script.engine_monty", raising=False)
    monkeypatch.delattr("grundlag_bus.sandbox.script.engine_monty", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'grundlag-bus\[sandbox\]'"):
        await Sandbox({}).run("1")


async def test_lines_are_counted_in_characters_whatever_they_are() -> None:
    result = await Sandbox(tools_of(give=give)).run("x = 'ÄÖÜ€😀' * 3\nawait give(1)\n\nawait give(2)")
    assert [call.line for call in result.calls] == [2, 4]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("next((n for n in [1, 2] if n > 1), None)", 2),
        ("next((n for n in [1, 2] if n > 2), 'none')", "none"),
        ("rest = (n for n in [1, 2, 3])\n[next(rest), list(rest)]", [1, [2, 3]]),
        ("next(iter([5]))", 5),
        ("list(map(int, ['1', '2']))", [1, 2]),
        ("list(filter(None, [0, 1]))", [1]),
        ("format(1.5, '.2f') + getattr(1, 'none', '!')", "1.50!"),
        ("rows = [{'n': 1, 't': 'a'}, {'n': 2, 't': 'b'}]\nsum(row['n'] for row in rows)", 3),
    ],
)
async def test_what_every_author_writes_runs(source: str, value: Any) -> None:
    assert (await Sandbox({}).run(source)).value == value
