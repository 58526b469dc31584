"""A run that is cancelled: what it runs stops wherever it is, and its transcript is whole and can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from grundlag_bus.agent import (
    AgentEvent,
    AgentRun,
    AgentTools,
    ModelPart,
    ModelRequest,
    Steps,
    TextDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from tests.support.agents import agent_of, assert_whole, calling, kinds, result_of, results, told
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host


class SlowModel:
    """Says one word, and then nothing for a long time."""

    name = "slow"

    def __init__(self) -> None:
        self.cancelled = False

    async def stream(self, _: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        yield TextDelta("Well")
        try:
            await asyncio.sleep(60)
        finally:
            self.cancelled = True


async def test_cancelling_reaches_a_running_tool_and_ends_when_it_has_stopped(host: Host) -> None:
    run = agent_of(host, [calling(("cleanUp", {}), ("note", {"name": "after"}))])
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: seen.runs["cleanUp"])
    run.cancel()
    events = await going_on
    assert seen.notes == ["cleaned up"]
    assert kinds(events)[-2:] == ["ToolEnded", "RunEnded"]
    assert results(events)["a"].code == "cancelled"
    assert result_of(run, "b").code == "cancelled"
    assert "before the call started" in result_of(run, "b").summary
    assert_whole(run.transcript)


async def test_cancelling_the_awaiting_coroutine_reaches_a_running_tool(host: Host) -> None:
    run = agent_of(host, [calling(("sleep", {"seconds": 60}), ("note", {"name": "after"})), "Good morning."])
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: seen.runs["sleep"])
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on
    await eventually(lambda: seen.notes == ["cancelled"])
    assert [result_of(run, call).code for call in "ab"] == ["cancelled", "cancelled"]
    assert "may have had effects" in result_of(run, "a").summary
    assert_whole(run.transcript)
    assert (await run.send("Hello")).text == "Good morning."


async def test_leaving_the_events_early_cancels_the_run(host: Host) -> None:
    run = agent_of(host, [calling(("sleep", {"seconds": 60}))])
    async with aclosing(run.send("Go")) as events:
        async for event in events:
            if isinstance(event, ToolProgress):  # it has started
                await eventually(lambda: seen.runs["sleep"])
                break
    assert not run.is_running
    await eventually(lambda: seen.notes == ["cancelled"])
    assert_whole(run.transcript)


async def test_leaving_the_events_without_a_word_cancels_the_run_as_well(host: Host) -> None:
    run = agent_of(host, [calling(("sleep", {"seconds": 60}))])
    async for event in run.send("Go"):
        if isinstance(event, ToolProgress):  # it has started
            await eventually(lambda: seen.runs["sleep"])
            break
    await eventually(lambda: seen.notes == ["cancelled"] and not run.is_running)
    assert_whole(run.transcript)


async def test_what_ended_before_keeps_its_result(host: Host) -> None:
    run = agent_of(host, [calling(("holdBeside", {"name": "one"}), ("holdBeside", {"name": "two"}))])
    events = []
    async for event in run.send("Go"):
        events.append(event)
        if kinds(events).count("ToolStarted") == 2:
            seen.gate("one").set()
        if isinstance(event, ToolEnded) and event.call.id == "a":
            run.cancel()
    assert result_of(run, "a").ok
    assert result_of(run, "b").code == "cancelled"
    assert_whole(run.transcript)


async def test_a_question_of_a_cancelled_batch_is_no_longer_pending(host: Host) -> None:
    run = agent_of(host, [calling(("askBeside", {"id": "e1"}), ("holdBeside", {"name": "gate"})), "Good morning."])
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: run.pending and ("started", "gate") in seen.notes)
    run.cancel()
    assert kinds(await going_on)[-1] == "RunEnded"
    assert run.pending == ()
    assert_whole(run.transcript)
    assert (await run.send("Hello")).status == "completed"


async def test_cancelling_ends_a_request_to_the_model(host: Host) -> None:
    model = SlowModel()
    run = AgentRun(model, AgentTools(host.tools))
    going_on = run.send("Go")
    async for event in going_on:
        if isinstance(event, TextDelta):
            run.cancel()
    assert going_on.result.status == "cancelled"
    assert model.cancelled
    assert_whole(run.transcript)


async def test_cancelling_the_awaiting_coroutine_ends_a_request_to_the_model(host: Host) -> None:
    model = SlowModel()
    run = AgentRun(model, AgentTools(host.tools))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await run.send("Go")
    assert model.cancelled
    assert not run.is_running


async def test_a_cancelled_run_can_be_resumed(host: Host) -> None:
    run = agent_of(host, [calling(("cleanUp", {})), "It was cancelled."])
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: seen.runs["cleanUp"])
    run.cancel()
    await going_on
    assert (await run.resume()).text == "It was cancelled."
    assert seen.runs["cleanUp"] == 1


async def test_a_strategy_that_fails_leaves_nothing_running_and_a_whole_transcript(host: Host) -> None:
    async def strategy(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        async for event in steps.ask():
            yield event
        async for event in steps.call_tools():
            yield event
            if kinds([event]) == ["ToolProgress"]:  # it has started
                await eventually(lambda: seen.runs["sleep"])
                raise LookupError("a defect")

    run = agent_of(host, [calling(("sleep", {"seconds": 60}))], strategy=strategy)
    with pytest.raises(LookupError):
        await run.send("Go")
    await eventually(lambda: seen.notes == ["cancelled"])
    assert not run.is_running
    assert_whole(run.transcript)


async def test_a_strategy_that_leaves_calls_undone_leaves_results_all_the_same(host: Host) -> None:
    async def strategy(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(steps.ask()) as events:
            async for event in events:
                yield event

    run = agent_of(host, [calling(("note", {"name": "never"}))], strategy=strategy)
    assert (await run.send("Go")).status == "completed"
    assert result_of(run, "a").code == "cancelled"
    assert not seen.notes


async def test_leaving_when_a_call_is_about_to_start_keeps_it_from_starting(host: Host) -> None:
    run = agent_of(host, [calling(("note", {"name": "never"})), "Good morning."])
    async with aclosing(run.send("Go")) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                break
    assert result_of(run, "a").code == "cancelled"
    assert "before the call started" in result_of(run, "a").summary
    assert (await run.send("Hello")).text == "Good morning."
    assert not seen.notes


async def test_cancelling_when_a_call_is_about_to_start_keeps_it_from_starting(host: Host) -> None:
    run = agent_of(host, [calling(("note", {"name": "never"}))])
    going_on = run.send("Go")
    async for event in going_on:
        if isinstance(event, ToolStarted):
            run.cancel()
    assert going_on.result.status == "cancelled"
    assert "before the call started" in result_of(run, "a").summary
    assert not seen.notes
