"""Runs over tools of this process: what the contract suite cannot see from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import pytest

from grundlag_bus import (
    AnswerInvalidError,
    ConfigurationError,
    ToolContext,
    ToolInterrupt,
    TranscriptError,
    define_tool,
)
from grundlag_bus.agent import (
    AgentEvent,
    AgentRun,
    AgentTools,
    ModelPart,
    ModelReply,
    ModelRequest,
    Replied,
    ReplyEnd,
    ScriptedModel,
    Steps,
    TextDelta,
    ToolCall,
    ToolDescription,
    ToolResult,
    Usage,
    call_until_answered,
)
from grundlag_bus.agent.calling import MOST_AT_ONCE
from grundlag_bus.errors import ModelError, RunStateError
from tests.support.agents import assert_whole, told
from tests.support.eventually import eventually


def local(execute: Any, *, parallel_safe: bool = False) -> AgentTools:
    return AgentTools(
        [define_tool(id="do", name="Do", input={}, output={}, execute=execute, parallel_safe=parallel_safe)]
    )


def doing(*values: Any) -> ModelReply:
    return ModelReply(calls=tuple(ToolCall.of("do", {"value": value}) for value in values))


async def ask_then_tell(value: Any, context: ToolContext) -> Any:
    if context.resumption is None:
        raise ToolInterrupt("Sure?", state={"kept": value["value"]}, answer_schema={"type": "boolean"})
    return [context.resumption.state, context.resumption.answer, context.resumption.by]


# --- tools made by define_tool ----------------------------------------------------------------------------------------


async def test_a_tool_of_this_process_may_ask_and_goes_on_with_what_it_kept() -> None:
    run = AgentRun(ScriptedModel([doing(7), "Done."]), local(ask_then_tell), user_id="ada")
    (pending,) = (await run.send("Go")).pending
    with pytest.raises(AnswerInvalidError):
        await run.answer({pending.interrupt_id: "yes"})
    data = run.to_json()
    text: Any = json.dumps(data)
    with pytest.raises(TranscriptError, match=r"use json\.loads"):
        AgentRun.from_json(text, model=ScriptedModel([]), tools=local(ask_then_tell))
    other = AgentRun.from_json(data, model=ScriptedModel(["Done."]), tools=local(ask_then_tell))
    assert (await other.answer({pending.interrupt_id: True})).status == "completed"
    (call,) = other.transcript.calls
    assert call.result is not None
    assert call.result.data == [{"kept": 7}, True, "ada"]


async def test_a_tool_may_ask_again_and_each_question_has_its_own_answer() -> None:
    async def twice(_: Any, context: ToolContext) -> Any:
        asked = 0 if context.resumption is None else context.resumption.state + 1
        if asked < 2:
            raise ToolInterrupt(f"Question {asked}", state=asked)
        return asked

    run = AgentRun(ScriptedModel([doing(1), "Done."]), local(twice))
    (first,) = (await run.send("Go")).pending
    (second,) = (await run.answer({first.interrupt_id: 1})).pending
    assert (first.message, second.message) == ("Question 0", "Question 1")
    with pytest.raises(RunStateError):
        await run.answer({first.interrupt_id: 1})
    assert (await run.answer({second.interrupt_id: 2})).status == "completed"
    assert_whole(run.transcript)


async def test_a_question_that_is_no_json_is_a_failed_call() -> None:
    async def odd(_: Any, __: ToolContext) -> Any:
        raise ToolInterrupt("Sure?", data={"at": object()})

    run = AgentRun(ScriptedModel([doing(1), "I see."]), local(odd))
    assert (await run.send("Go")).status == "completed"
    (call,) = run.transcript.calls
    assert call.result is not None
    assert call.result.value().code == "output_invalid"


async def test_a_reply_with_very_many_calls_runs_so_many_at_once_and_no_more() -> None:
    running, most = 0, 0

    async def count(_: Any, __: ToolContext) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    run = AgentRun(ScriptedModel([doing(*range(100)), "Done."]), local(count, parallel_safe=True))
    await run.send("Go")
    assert most == MOST_AT_ONCE
    assert_whole(run.transcript)


@pytest.mark.parametrize("from_outside", [False, True])
async def test_calls_that_waited_for_their_turn_when_a_run_was_cancelled_did_not_start(from_outside: bool) -> None:
    started: list[Any] = []

    async def wait(value: Any, _: ToolContext) -> Any:
        started.append(value["value"])
        await asyncio.sleep(60)

    run = AgentRun(ScriptedModel([doing(*range(MOST_AT_ONCE + 4))]), local(wait, parallel_safe=True))
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: len(started) == MOST_AT_ONCE)
    if from_outside:
        going_on.cancel()
    else:
        run.cancel()
    await asyncio.wait({going_on})
    ends = [call.result.summary for call in run.transcript.calls if call.result is not None]
    assert [summary for summary in ends if "before the call started" in summary] == ends[MOST_AT_ONCE:]
    assert len(ends) == MOST_AT_ONCE + 4
    assert len(started) == MOST_AT_ONCE


# --- runtimes of others -----------------------------------------------------------------------------------------------


class Runtime:
    def __init__(self, gives: Any) -> None:
        self._gives = gives

    def list(self) -> list[ToolDescription]:
        return [ToolDescription(name="do", description="Does.", input={})]

    async def execute(self, _: ToolCall, __: ToolContext) -> ToolResult:
        if isinstance(self._gives, Exception):
            raise self._gives
        return ToolResult(True, "x", self._gives)


@pytest.mark.parametrize(("gives", "code"), [(LookupError("hunter2"), "internal"), (object(), "output_invalid")])
async def test_a_runtime_with_a_defect_does_not_end_the_run(gives: Any, code: str) -> None:
    run = AgentRun(ScriptedModel([doing(1), "I see."]), Runtime(gives))
    assert (await run.send("Go")).status == "completed"
    (call,) = run.transcript.calls
    assert call.result is not None
    assert call.result.value().code == code
    assert "hunter2" not in call.result.value().text


def test_a_map_of_tools_is_refused_with_what_to_do() -> None:
    tools: Any = {}
    with pytest.raises(ConfigurationError, match=r"A dict cannot be the tools of a run: give it AgentTools\(tools\)"):
        AgentRun(ScriptedModel([]), tools)


# --- models -----------------------------------------------------------------------------------------------------------


class PartsModel:
    """Gives the parts it is told, and raises what is an error among them."""

    name = "parts"

    def __init__(self, *parts: ModelPart | BaseException) -> None:
        self._parts = parts

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        for part in self._parts:
            if isinstance(part, BaseException):
                raise part
            yield part


async def test_a_reply_that_breaks_off_runs_no_call_and_is_not_written_down() -> None:
    calls: list[Any] = []

    async def note(value: Any, _: ToolContext) -> Any:
        calls.append(value)

    for end in ((), (ModelError("gone", code="unreachable", retryable=True),), (asyncio.CancelledError(),)):
        run = AgentRun(PartsModel(TextDelta("We"), ToolCall.of("do"), *end), local(note))
        result = await run.send("Go")
        assert result.status == "failed"
        assert isinstance(result.error, ModelError)
        assert [record.kind for record in run.transcript.records] == ["prompt"]
    assert not calls


async def test_a_reply_that_is_no_unicode_is_an_error_of_the_model() -> None:
    run = AgentRun(PartsModel(TextDelta("\ud800"), ReplyEnd()), AgentTools([]))
    result = await run.send("Go")
    assert result.error is not None
    assert result.error.code == "reply_invalid"


async def test_a_reply_that_was_cut_says_so() -> None:
    run = AgentRun(ScriptedModel([ModelReply("It is", cut="length")]), AgentTools([]))
    result = await run.send("Go")
    assert (result.status, result.text, result.cut) == ("completed", "It is", "length")


async def test_text_of_blanks_alone_is_not_lost() -> None:
    run = AgentRun(ScriptedModel(["  \n", " a  b ", ""]), AgentTools([]))
    assert [(await run.send("Go")).text for _ in range(3)] == ["  \n", " a  b ", ""]


async def test_a_script_that_is_over_says_so() -> None:
    model = ScriptedModel(["One."])
    run = AgentRun(model, AgentTools([]))
    await run.send("Go")
    result = await run.send("Go")
    assert result.error is not None
    assert "The script of 1 replies is over" in str(result.error)
    assert len(model.requests) == 2


# --- strategies -------------------------------------------------------------------------------------------------------


async def test_a_strategy_is_the_loop() -> None:
    async def answer_twice(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        async for event in call_until_answered(steps):
            yield event
        async for event in steps.ask(instructions="Say it shorter."):
            yield event

    model = ScriptedModel(["A long answer.", "Short."])
    run = AgentRun(model, AgentTools([]), strategy=answer_twice, instructions="Be brief.")
    assert (await run.send("Go")).text == "Short."
    assert [request.instructions for request in model.requests] == ["Be brief.", "Say it shorter."]
    assert model.requests[1].messages[-1] == Replied("A long answer.")


async def test_a_strategy_may_ask_a_failing_model_again() -> None:
    async def patient(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        try:
            async for event in call_until_answered(steps):
                yield event
        except ModelError as error:
            if not error.retryable:
                raise
            async for event in call_until_answered(steps):
                yield event

    failure = ModelError("busy", code="rate_limited", retryable=True)
    run = AgentRun(ScriptedModel([failure, "Hello."]), AgentTools([]), strategy=patient)
    assert (await run.send("Go")).text == "Hello."


async def test_a_strategy_cannot_ask_before_every_call_has_its_result() -> None:
    async def hasty(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        for _ in range(2):
            async for event in steps.ask():
                yield event

    run = AgentRun(ScriptedModel([doing(1), "Hello."]), AgentTools([]), strategy=hasty)
    with pytest.raises(RunStateError, match="call_tools"):
        await run.send("Go")
    assert_whole(run.transcript)


async def test_a_strategy_cannot_swallow_cancellation_by_catching_exceptions() -> None:
    async def swallowing(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        while True:
            try:
                async for event in steps.ask():
                    yield event
            except Exception:  # noqa: BLE001, S112  the strategy's defect
                continue

    run = AgentRun(ScriptedModel(lambda _: "Again."), AgentTools([]), strategy=swallowing, max_turns=3)
    assert (await run.send("Go")).status == "max_turns"


async def test_nothing_happens_before_a_prompt_is_awaited() -> None:
    run = AgentRun(ScriptedModel(["Hello."]), AgentTools([]))
    going_on = run.send("Go")
    assert not run.transcript.records
    assert (await going_on).text == "Hello."


async def test_nothing_runs_after_a_run() -> None:
    async def short(_: Any, __: ToolContext) -> Any:
        await asyncio.sleep(0)

    run = AgentRun(ScriptedModel([doing(1, 2), "Done."]), local(short, parallel_safe=True))
    await told(run.send("Go"))
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})


# --- as data ----------------------------------------------------------------------------------------------------------


async def test_a_run_is_the_same_after_it_was_written_and_read() -> None:
    run = AgentRun(ScriptedModel(["Hello."]), AgentTools([]), user_id="ada", instructions="Be brief.", max_turns=7)
    await run.send("Go")
    other = AgentRun.from_json({**run.to_json(), "new": 1}, model=ScriptedModel([]), tools=AgentTools([]))
    assert other.to_json() == run.to_json()
    assert run.to_json()["maxTurns"] == 7
    assert other.transcript.usage == Usage()


@pytest.mark.parametrize("data", [{}, {"v": 2, "transcript": {"records": []}}, {"transcript": {"records": 1}}])
def test_what_is_no_run_is_refused(data: Any) -> None:
    with pytest.raises(TranscriptError, match="malformed at"):
        AgentRun.from_json(data, model=ScriptedModel([]), tools=AgentTools([]))


# --- tools that break the rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gives",
    [
        ToolResult(ok=True, summary="\udcff"),
        ToolResult(ok=True, summary=5),  # type: ignore[arg-type]  # the mistake that is meant
        ToolInterrupt("Sure?", expires_at=datetime(2030, 1, 1)),  # noqa: DTZ001  the same
        ToolInterrupt(5),  # type: ignore[arg-type]  # the same
        ToolInterrupt("Sure?", interrupt_id=5),  # type: ignore[arg-type]  # the same
    ],
)
async def test_what_a_tool_gives_that_cannot_be_kept_fails_its_call_alone(gives: ToolResult | ToolInterrupt) -> None:
    class Runtime:
        def list(self) -> list[ToolDescription]:
            return [ToolDescription(name="do", description="Do", input={})]

        async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
            if isinstance(gives, ToolInterrupt):
                raise gives
            return gives

    run = AgentRun(ScriptedModel([doing(1), "Done."]), Runtime())
    result = await run.send("Go")
    assert (result.status, result.text) == ("completed", "Done.")
    (call,) = run.transcript.calls
    assert call.result is not None
    assert call.result.data["code"] == "output_invalid"
    json.dumps(run.to_json(), ensure_ascii=False).encode()
