"""Tools that run here: validated as actions are."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ConfigurationError,
    Tool,
    ToolContext,
    ToolInputValidationError,
    ToolInterrupt,
    ToolOutputValidationError,
    define_tool,
)


class Add(BaseModel):
    a: int
    b: int = 0


class Sum(BaseModel):
    sum: int


def make(execute: Any, *, input: Any = Add, output: Any = Sum) -> Tool:  # noqa: A002  the field's name
    return define_tool(id="add", name="Add", description="Adds.", input=input, output=output, execute=execute)


async def _add(numbers: Add, context: ToolContext) -> Sum:
    return Sum(sum=numbers.a + numbers.b)


async def test_a_tool_takes_and_returns_plain_json_data() -> None:
    tool = make(_add)
    assert await tool.execute({"a": 1, "b": 2}) == {"sum": 3}
    assert await tool.execute(Add(a=1)) == {"sum": 1}
    assert (tool.id, tool.description, tool.provider_id, tool.action_id) == ("add", "Adds.", None, None)
    assert (set(tool.input["properties"]), set(tool.output["properties"])) == ({"a", "b"}, {"sum"})


async def test_a_tool_sees_its_context() -> None:
    async def who(_: Add, context: ToolContext) -> str | None:
        return context.user_id

    tool = make(who, output={})
    assert await tool.execute({"a": 1}, ToolContext(user_id="ada")) == "ada"
    assert await tool.execute({"a": 1}) is None


@pytest.mark.parametrize("bad", [{}, {"a": "one"}, {"a": float("nan")}, None])
async def test_bad_input_is_refused_and_runs_nothing(bad: Any) -> None:
    async def never(_: Add, context: ToolContext) -> Sum:
        raise AssertionError

    with pytest.raises(ToolInputValidationError) as raised:
        await make(never).execute(bad)
    assert (raised.value.tool_id, raised.value.code) == ("add", "input_invalid")
    assert raised.value.issues


@pytest.mark.parametrize("returned", [{"sum": "many"}, None, 3])
async def test_bad_output_is_refused(returned: Any) -> None:
    async def wrong(_: Add, context: ToolContext) -> Any:
        return returned

    with pytest.raises(ToolOutputValidationError) as raised:
        await make(wrong).execute({"a": 1})
    assert (raised.value.tool_id, raised.value.code) == ("add", "output_invalid")


async def test_json_schemas_do_instead_of_models() -> None:
    async def same(data: Any, context: ToolContext) -> Any:
        return data

    tool = make(same, input={"required": ["a"]}, output={"required": ["b"]})
    assert await tool.execute({"a": 1, "b": None}) == {"a": 1, "b": None}
    with pytest.raises(ToolInputValidationError):
        await tool.execute({})
    with pytest.raises(ToolOutputValidationError):
        await tool.execute({"a": 1})


def test_a_type_without_a_schema_names_the_tool() -> None:
    with pytest.raises(ConfigurationError, match=r"^tool add uses Tool, of which no JSON Schema can be made"):
        make(_add, output=Tool)


async def test_only_an_interrupt_that_a_call_returned_can_be_resumed() -> None:
    with pytest.raises(ConfigurationError) as raised:
        await make(_add).resume(ToolInterrupt("Sure?"), {})
    assert str(raised.value) == (
        "The interrupt 'Sure?' was not returned by a call of add: resume with the ToolInterrupt that execute() raised."
    )


async def test_resuming_calls_again_with_input_answer_and_who_gave_it() -> None:
    async def tell(numbers: Add, context: ToolContext) -> list[Any]:
        given = context.resumption
        assert given is not None
        return [numbers.a, given.interrupt_id, given.answer, given.state, given.by, context.user_id]

    tool = make(tell, output={})
    interrupt = ToolInterrupt("?", interrupt_id="i1", state="sealed", input={"a": 1})
    told = await tool.resume(interrupt, {"yes": True}, ToolContext(user_id="ada"))
    assert told == [1, "i1", {"yes": True}, "sealed", "ada", "ada"]
    assert (await tool.resume(interrupt, None, ToolContext(user_id="ada"), by="bob"))[4:] == ["bob", "ada"]
    assert (await tool.resume(interrupt, None))[4:] == [None, None]


def test_tools_and_contexts_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        make(_add).id = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        ToolContext().user_id = "ada"  # type: ignore[misc]
