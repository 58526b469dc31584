"""AgentTools: one object that shows a model its tools and runs what it calls, wherever they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import AnswerInvalidError, ToolContext, ToolInterrupt, ToolResumption
from grundlag_bus.agent import AgentTools, ToolCall, ToolResult
from tests.support.agents import name_of
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host


async def execute(host: Host, action: str, value: Any = None, context: ToolContext | None = None) -> ToolResult:
    return await AgentTools(host.tools).execute(ToolCall.of(name_of(action), value), context)


def code_of(result: ToolResult) -> str:
    assert not result.ok
    return str(result.data["code"])


async def test_a_model_is_shown_what_can_be_run(host: Host) -> None:
    described = {tool.name: tool for tool in AgentTools(host.tools).list()}
    assert described.keys() == host.tools.keys()
    add = described["contractAdd"]
    assert (add.description, add.parallel_safe) == ("Adds two numbers.", False)
    assert add.input == host.tools["contractAdd"].input
    assert described["contractEcho"].description == "Echo"
    assert described["contractAskBeside"].parallel_safe


async def test_a_call_gives_its_result(host: Host) -> None:
    result = await execute(host, "add", {"a": 1, "b": 2})
    assert result == ToolResult(True, '{"sum":3}', {"sum": 3})
    assert result.text == '{"sum":3}'


async def test_an_unknown_tool_reaches_nothing(host: Host) -> None:
    result = await AgentTools(host.tools).execute(ToolCall.of("contractNothing", {"a": 1}))
    assert (result.ok, result.summary, result.code) == (False, "Unknown tool: contractNothing", "tool_unknown")


async def test_a_tool_that_is_not_allowed_is_unknown_and_does_not_run(host: Host) -> None:
    tools = AgentTools(host.tools, ["contractEcho"])
    assert [tool.name for tool in tools.list()] == ["contractEcho"]
    result = await tools.execute(ToolCall.of("contractAdd", {"a": 1, "b": 2}))
    assert result.summary == "Unknown tool: contractAdd"
    assert not seen.runs
    assert (await execute(host, "add", {"a": 1, "b": 2})).ok


async def test_bad_arguments_are_refused_with_each_place(host: Host) -> None:
    result = await execute(host, "add", {"a": "many"})
    assert code_of(result) == "input_invalid"
    told = {tuple(issue["path"]): issue["message"] for issue in result.data["issues"]}
    assert told.keys() == {("a",), ()}
    assert "b" in told[()]
    assert not seen.runs


async def test_what_only_the_action_can_refuse_is_refused_in_the_same_form(host: Host) -> None:
    result = await execute(host, "even", {"n": 3})
    assert code_of(result) == "input_invalid"
    assert [issue["path"] for issue in result.data["issues"]] == [["n"]]


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "b":', "[1, 2]", "nothing", '{"a": 1, "b": 123456789012345678901234567890}', '{"a": NaN}']
)
async def test_malformed_arguments_are_refused_by_name(host: Host, arguments: str) -> None:
    result = await AgentTools(host.tools).execute(ToolCall("x", "contractAdd", arguments))
    assert code_of(result) == "input_invalid"
    assert result.data["issues"]
    assert "contractAdd" in result.data["message"]
    assert not seen.runs


async def test_no_arguments_at_all_are_an_empty_object(host: Host) -> None:
    assert (await AgentTools(host.tools).execute(ToolCall("x", "contractWhoAmI", ""))).ok


async def test_what_an_action_says_of_its_failure_reaches_the_model(host: Host) -> None:
    result = await execute(host, "raise", {"name": "ActionFailed"})
    assert result.data == {
        "code": "sold_out",
        "message": "There is none left.",
        "details": {"left": 0},
        "retryable": True,
    }
    assert result.summary == "sold_out: There is none left."


async def test_an_exception_becomes_a_result_without_its_words(host: Host) -> None:
    result = await execute(host, "raise", {"name": "Exception"})
    assert code_of(result) == "internal"
    assert "hunter2" not in result.text
    assert "Traceback" not in result.text
    assert "ValueError" in result.text


async def test_an_interrupt_passes(host: Host) -> None:
    with pytest.raises(ToolInterrupt, match="Delete e1"):
        await execute(host, "ask", {"id": "e1"})


async def test_a_call_goes_on_with_an_answer(host: Host) -> None:
    with pytest.raises(ToolInterrupt) as raised:
        await execute(host, "ask", {"id": "e1"})
    asked = raised.value
    assert asked.interrupt_id is not None
    bad = ToolResumption(asked.interrupt_id, {"approved": "perhaps"}, asked.state)
    with pytest.raises(AnswerInvalidError):
        await execute(host, "ask", {"id": "e1"}, ToolContext(resumption=bad))
    good = ToolResumption(asked.interrupt_id, {"approved": True}, asked.state)
    assert (await execute(host, "ask", {"id": "e1"}, ToolContext(resumption=good))).ok


async def test_cancellation_passes_and_reaches_the_action(host: Host) -> None:
    call = asyncio.create_task(execute(host, "sleep", {"seconds": 30}))
    await eventually(lambda: seen.runs["sleep"])
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: seen.notes == ["cancelled"])


async def test_a_call_that_the_signal_cancels_says_so_when_it_has_stopped(host: Host) -> None:
    signal = asyncio.Event()
    call = asyncio.create_task(execute(host, "cleanUp", {}, ToolContext(signal=signal)))
    await eventually(lambda: seen.runs["cleanUp"])
    signal.set()
    assert (await call).code == "cancelled"
    assert seen.notes == ["cleaned up"]


async def test_a_large_result_is_shortened_and_says_so(host: Host) -> None:
    tools = AgentTools(host.tools, limit=1000)
    result = await tools.execute(ToolCall.of("contractProduce", {"length": 5000}))
    assert result.shortened is not None
    assert result.data == "x" * 998
    assert (result.shortened.size, result.shortened.limit) == (5002, 1000)
    assert result.shortened.left_out == ("the result itself: the last 4002 of 5000 characters",)
    assert result.text.startswith('{"shortened":{"bytes":5002,"leftOut":["the result itself: the last')
