"""create_agent_session: tools that describe themselves, and the older pair of a function and a list."""

from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus import ConfigurationError, ToolContext, ToolInterrupt, define_tool
from grundlag_bus.agent import (
    AgentTools,
    ModelReply,
    ScriptedModel,
    ToolCall,
    ToolDescription,
    ToolResult,
    create_agent_session,
)

SAY = ToolDescription(
    name="say",
    description="Says it.",
    input={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
CALLS: list[ModelReply | str | Exception] = [
    ModelReply(calls=(ToolCall.of("say", {"word": "hello"}), ToolCall.of("say", {}), ToolCall.of("sing", {}))),
    "Done.",
]


class Dispatch:
    """The older half of a pair: it runs calls and cannot say which."""

    def __init__(self, gives: Any = None) -> None:
        self.calls: list[ToolCall] = []
        self._gives = gives

    async def __call__(self, call: ToolCall, context: ToolContext) -> Any:
        self.calls.append(call)
        if isinstance(self._gives, BaseException):
            raise self._gives
        return self._gives


class OnlyExecutes(Dispatch):
    async def execute(self, call: ToolCall, context: ToolContext) -> Any:
        raise AssertionError


async def say(given: Any, _: ToolContext) -> Any:
    return {"said": given["word"]}


async def test_tools_that_describe_themselves_are_one_argument() -> None:
    tool = define_tool(id="say", name="Say", input=SAY.input, output={}, execute=say)
    session = create_agent_session(model=ScriptedModel(CALLS), tools=AgentTools([tool]))
    assert (await session.send("Go")).text == "Done."
    assert [call.result and call.result.ok for call in session.transcript.calls] == [True, False, False]


@pytest.mark.parametrize("kind", [Dispatch, OnlyExecutes])
async def test_the_older_pair_still_works(kind: type[Dispatch]) -> None:
    dispatch = kind({"said": "hello"})
    session = create_agent_session(model=ScriptedModel(CALLS), tools=dispatch, tool_list=[SAY])
    assert (await session.send("Go")).text == "Done."
    ended = [call.result.value() for call in session.transcript.calls if call.result is not None]
    assert ended[0].data == {"said": "hello"}
    assert [result.code for result in ended] == [None, "input_invalid", "tool_unknown"]
    assert [call.name for call in dispatch.calls] == ["say"]


async def test_a_function_may_give_a_result_of_its_own() -> None:
    own = ToolResult(False, "no: I will not.", {"code": "no", "message": "I will not."})
    session = create_agent_session(model=ScriptedModel(CALLS), tools=Dispatch(own), tool_list=[SAY])
    await session.send("Go")
    assert session.transcript.calls[0].result is not None
    assert session.transcript.calls[0].result.value() == own


async def test_what_a_function_raises_is_a_result() -> None:
    session = create_agent_session(model=ScriptedModel(CALLS), tools=Dispatch(LookupError("x")), tool_list=[SAY])
    assert (await session.send("Go")).status == "completed"
    assert session.transcript.calls[0].result is not None
    assert session.transcript.calls[0].result.value().code == "internal"


async def test_a_function_may_ask() -> None:
    session = create_agent_session(model=ScriptedModel(CALLS), tools=Dispatch(ToolInterrupt("Sure?")), tool_list=[SAY])
    assert [pending.message for pending in (await session.send("Go")).pending] == ["Sure?"]


@pytest.mark.parametrize(
    ("tools", "tool_list", "told"),
    [
        (Dispatch(), None, "describe it in tool_list="),
        ({"say": say}, None, r"A dict cannot be the tools of a session: give it AgentTools"),
        (AgentTools([]), [SAY], "leave tool_list= out"),
        (Dispatch(), [ToolDescription(name="say it", description="", input={})], "no name that models can call"),
    ],
)
def test_what_is_neither_is_refused(tools: Any, tool_list: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        create_agent_session(model=ScriptedModel([]), tools=tools, tool_list=tool_list)
