from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from grundlag_bus import ConfigurationError, Defer, Tool, ToolContext, ToolInterrupt, define_tool
from grundlag_bus.agent import AgentTools, ToolCall, ToolResult
from grundlag_bus.errors import ActionFailed
from tests.support.eventually import eventually


class Word(BaseModel):
    word: str


def tool(execute: Any, *, name: str = "say", output: Any = dict) -> Tool:
    return define_tool(id=name, name="Say", input=Word, output=output, execute=execute)


async def say(given: Word, _: ToolContext) -> dict[str, str]:
    return {"said": given.word}


async def run(execute: Any, context: ToolContext | None = None, output: Any = dict) -> ToolResult:
    return await AgentTools([tool(execute, output=output)]).execute(ToolCall.of("say", {"word": "hello"}), context)


def raising(error: BaseException) -> Any:
    async def execute(_: Word, __: ToolContext) -> dict[str, str]:
        raise error

    return execute


# --- what is there ----------------------------------------------------------------------------------------------------


def test_tools_may_be_a_map_or_a_list() -> None:
    assert AgentTools([tool(say)]).list() == AgentTools({"say": tool(say)}).list()


def test_two_tools_of_one_id_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Two tools are called 'say'"):
        AgentTools([tool(say), tool(say)])


def test_a_name_that_is_not_there_cannot_be_chosen() -> None:
    with pytest.raises(ConfigurationError, match=r"no tool 'sing' to choose: take of say\."):
        AgentTools([tool(say)], ["sing"])


@pytest.mark.parametrize("name", ["", "x" * 65, "say it", "säg", "a.b"])
def test_a_name_that_some_vendor_refuses_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name that models can call"):
        AgentTools({name: tool(say)})


@pytest.mark.parametrize("name", ["x" * 64, "say-it", "say_2", "_1"])
def test_a_name_that_every_vendor_takes_is_taken(name: str) -> None:
    assert [described.name for described in AgentTools({name: tool(say)}).list()] == [name]


async def test_hiding_a_tool_for_one_agent_hides_it_for_nobody_else() -> None:
    shared = {"say": tool(say), "sing": tool(say, name="sing")}
    few, all_of_them = AgentTools(shared, ["say"]), AgentTools(shared)
    assert len(few.list()) == 1
    assert len(all_of_them.list()) == 2
    del shared["sing"]
    assert (await all_of_them.execute(ToolCall.of("sing", {"word": "la"}))).ok


def test_changing_a_description_changes_no_tool() -> None:
    tools = AgentTools([tool(say)])
    tools.list()[0].input.clear()
    tools.list().clear()
    assert tools.list()[0].input == tool(say).input


# --- how calls end ----------------------------------------------------------------------------------------------------


async def test_what_a_tool_raises_is_told_without_its_words_and_logged_in_full() -> None:
    with capture_logs() as logs:
        result = await run(raising(LookupError("hunter2")))
    assert result.code == "internal"
    assert "hunter2" not in result.text
    assert result.data["details"]["reference"] == logs[0]["reference"]
    assert isinstance(logs[0]["exc_info"], LookupError)


async def test_a_tool_that_fails_by_its_own_word_is_told_as_it_says() -> None:
    result = await run(raising(ActionFailed("sold_out", "There is none left.", details={"left": 0})))
    assert result.data == {"code": "sold_out", "message": "There is none left.", "details": {"left": 0}}


@pytest.mark.parametrize(
    "error",
    [
        ActionFailed("x", "y", details=object()),
        ActionFailed("\ud800", "y"),
        Defer(after=1),
        ExceptionGroup("x", [ValueError()]),
    ],
)
async def test_whatever_a_tool_raises_is_a_result(error: BaseException) -> None:
    assert (await run(raising(error))).code == "internal"


async def test_an_interrupt_passes() -> None:
    with pytest.raises(ToolInterrupt, match=r"Sure\?"):
        await run(raising(ToolInterrupt("Sure?")))


async def test_what_a_tool_made_by_hand_returns_is_checked() -> None:
    async def odd(_: Any, __: ToolContext) -> Any:
        return {"at": object()}

    by_hand = Tool(id="say", name="Say", input={}, output={}, run=odd)
    result = await AgentTools([by_hand]).execute(ToolCall.of("say"))
    assert result.code == "output_invalid"
    assert "at:" in result.data["message"]


async def test_the_signal_cancels_a_tool_of_this_process() -> None:
    signal, notes = asyncio.Event(), []

    async def long(_: Word, __: ToolContext) -> dict[str, str]:
        notes.append("started")
        try:
            await asyncio.sleep(60)
        finally:
            notes.append("stopped")
        return {}

    running = asyncio.create_task(run(long, ToolContext(signal=signal)))
    await eventually(lambda: notes)
    signal.set()
    assert (await running).code == "cancelled"
    assert notes == ["started", "stopped"]
    assert (await run(long, ToolContext(signal=signal))).code == "cancelled"
    assert notes == ["started", "stopped"]


async def test_a_tool_that_completes_in_spite_of_the_signal_keeps_its_result() -> None:
    signal = asyncio.Event()

    async def stubborn(_: Word, context: ToolContext) -> dict[str, str]:
        try:
            signal.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return {"said": "all the same"}

    assert (await run(stubborn, ToolContext(signal=signal))).data == {"said": "all the same"}


async def test_cancelling_the_coroutine_stops_a_tool_that_has_a_signal() -> None:
    notes: list[str] = []

    async def long(_: Word, __: ToolContext) -> dict[str, str]:
        notes.append("started")
        try:
            await asyncio.sleep(60)
        finally:
            notes.append("stopped")
        return {}

    running = asyncio.create_task(run(long, ToolContext(signal=asyncio.Event())))
    await eventually(lambda: notes)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert notes == ["started", "stopped"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_large_failure_is_shortened_as_well() -> None:
    error = ActionFailed("big", "Much went wrong.", details={"lines": ["x" * 100] * 1000})
    result = await AgentTools([tool(raising(error))], limit=1000).execute(ToolCall.of("say", {"word": "x"}))
    assert result.shortened is not None
    assert len(result.text) < 1300
    assert result.code == "big"
