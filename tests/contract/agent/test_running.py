"""A run: the model is asked, its calls run, and what they gave goes back, until it calls nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import NotJsonError
from grundlag_bus.agent import (
    AgentTools,
    ModelReply,
    ModelRequest,
    Prompt,
    Replied,
    Returned,
    RunEnded,
    TextDelta,
    ToolCall,
    ToolEnded,
    ToolProgress,
    Usage,
)
from grundlag_bus.errors import ModelError, RunStateError
from tests.support.agents import agent_of, assert_whole, calling, kinds, name_of, requests_of, result_of, told
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host


async def test_a_prompt_without_calls_gives_the_text(host: Host) -> None:
    run = agent_of(host, ["Good morning."])
    result = await run.send("Hello")
    assert (result.status, result.text, result.turns) == ("completed", "Good morning.", 1)
    assert requests_of(run)[0].messages == (Prompt("Hello"),)


async def test_what_a_call_gave_goes_back_to_the_model(host: Host) -> None:
    run = agent_of(host, [calling(("add", {"a": 1, "b": 2}), text="Let me see."), "It is 3."])
    result = await run.send("What is 1 + 2?")
    assert result.text == "It is 3."
    call = ToolCall("a", "contractAdd", '{"a":1,"b":2}')
    assert requests_of(run)[1].messages == (
        Prompt("What is 1 + 2?"),
        Replied("Let me see.", (call,)),
        Returned("a", "contractAdd", '{"sum":3}', ok=True),
    )
    assert_whole(run.transcript)


async def test_a_model_is_shown_the_tools_at_each_request(host: Host) -> None:
    run = agent_of(host, [calling(("add", {"a": 1, "b": 2})), "3"], instructions="Be brief.")
    await run.send("1 + 2?")
    for request in requests_of(run):
        assert list(request.tools) == AgentTools(host.tools).list()
        assert request.instructions == "Be brief."


async def test_each_event_comes_once_and_in_order(host: Host) -> None:
    run = agent_of(host, [calling(("add", {"a": 1, "b": 2})), "It is three."])
    events = [event async for event in run.send("1 + 2?")]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "It is three."
    assert len(texts) == 3
    assert kinds(event for event in events if not isinstance(event, TextDelta | ToolProgress)) == [
        "ReplyEnded",
        "ToolStarted",
        "ToolEnded",
        "TurnEnded",
        "ReplyEnded",
        "TurnEnded",
        "RunEnded",
    ]


async def test_the_result_is_that_of_the_last_event(host: Host) -> None:
    going_on = agent_of(host, ["Hello"]).send("Hello")
    with pytest.raises(RunStateError):
        _ = going_on.result
    *_, last = [event async for event in going_on]
    assert isinstance(last, RunEnded)
    assert last.result == going_on.result


async def test_requests_and_calls_are_timed(host: Host) -> None:
    run = agent_of(host, [calling(("sleep", {"seconds": 0.05})), "Done."])
    (ended,) = [event for event in await told(run.send("Sleep")) if isinstance(event, ToolEnded)]
    assert ended.seconds >= 0.05
    assert ended.started_at > 1_600_000_000
    (record,) = run.transcript.calls
    assert record.seconds == ended.seconds


async def test_tokens_are_counted_over_the_whole_run(host: Host) -> None:
    call = calling(("add", {"a": 1, "b": 2})).calls
    run = agent_of(host, [ModelReply("", call, Usage(10, 3, 1)), ModelReply("3", usage=Usage(20, 2, 10))])
    assert (await run.send("1 + 2?")).usage == Usage(30, 5, 11)


@pytest.mark.parametrize(
    ("action", "value", "code"),
    [
        ("add", {"a": "one"}, "input_invalid"),
        ("even", {"n": 3}, "input_invalid"),
        ("raise", {"name": "ActionFailed"}, "sold_out"),
        ("raise", {"name": "Exception"}, "internal"),
        ("raise", {"name": "own BaseException"}, "internal"),
        ("raise", {"name": "CancelledError"}, "internal"),
        ("wrong", {}, "output_invalid"),
        ("nothingLikeIt", {}, "tool_unknown"),
    ],
)
async def test_a_call_that_fails_is_told_to_the_model_and_the_run_goes_on(
    host: Host, action: str, value: Any, code: str
) -> None:
    run = agent_of(host, [calling((action, value)), "I see."])
    assert (await run.send("Try")).status == "completed"
    assert result_of(run, "a").code == code
    (returned,) = (message for message in requests_of(run)[1].messages if isinstance(message, Returned))
    assert not returned.ok
    assert code in returned.text
    assert "hunter2" not in returned.text


async def test_safe_neighbours_run_side_by_side_and_nothing_else_does(host: Host) -> None:
    run = agent_of(
        host,
        [
            calling(
                ("holdBeside", {"name": "one"}),
                ("holdBeside", {"name": "two"}),
                ("note", {"name": "between"}),
                ("holdBeside", {"name": "three"}),
            ),
            "Done.",
        ],
    )
    ending = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: sorted(seen.notes) == [("started", "one"), ("started", "two")])
    seen.gate("two").set()
    await eventually(lambda: run.transcript.calls[1].result is not None)
    seen.gate("three").set()
    seen.gate("one").set()
    events = await ending
    assert seen.notes[3:] == [("ended", "one"), ("noted", "between"), ("started", "three"), ("ended", "three")]
    assert [event.call.id for event in events if isinstance(event, ToolEnded)] == ["b", "a", "c", "d"]
    returned = [message for message in requests_of(run)[1].messages if isinstance(message, Returned)]
    assert [message.call_id for message in returned] == ["a", "b", "c", "d"]


async def test_what_is_not_declared_safe_runs_in_turn(host: Host) -> None:
    run = agent_of(host, [calling(("hold", {"name": "one"}), ("note", {"name": "two"})), "Done."])
    ending = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: seen.runs["hold one"])
    assert not seen.notes
    seen.gate("one").set()
    await ending
    assert seen.notes == [("noted", "two")]


async def test_a_failing_call_does_not_keep_its_neighbours_from_running(host: Host) -> None:
    run = agent_of(host, [calling(("raise", {"name": "Exception"}), ("note", {"name": "after"})), "Done."])
    await run.send("Go")
    assert seen.notes == [("noted", "after")]


async def test_a_tool_tells_how_far_it_is_before_it_ends(host: Host) -> None:
    run = agent_of(host, [calling(("workByGate", {"name": "gate"})), "Done."])
    texts = []
    async for event in run.send("Work"):
        if isinstance(event, ToolProgress) and event.progress.text:
            texts.append((event.call.id, event.progress.text))
            seen.gate("gate").set()
    assert texts == [("a", "waiting")]


async def test_items_of_calls_are_in_the_transcript_and_reach_the_next_call(host: Host) -> None:
    run = agent_of(host, [calling(("remember", {"how": "completed"})), calling(("recall", {})), "Done."])
    await run.send("Remember")
    assert [(item.type, item.data) for item in run.transcript.items.list()] == [
        ("note", {"number": 1}),
        ("place", {"number": 2}),
    ]
    recalled = run.transcript.calls[1].result
    assert recalled is not None
    assert recalled.data["types"] == ["note", "place"]


async def test_items_of_a_call_that_failed_are_kept_as_well(host: Host) -> None:
    run = agent_of(host, [calling(("remember", {"how": "failed"})), "Done."])
    await run.send("Remember")
    assert [item.type for item in run.transcript.items.list()] == ["note", "place"]


async def test_calls_are_made_for_the_runs_user(host: Host) -> None:
    run = agent_of(host, [calling(("whoAmI", {})), "Done."], user_id="ada")
    await run.send("Who am I?")
    assert result_of(run, "a").data["value"]["user"] == "ada"


async def test_a_run_ends_after_as_many_turns_as_it_may_take(host: Host) -> None:
    run = agent_of(host, lambda _: calling(("note", {"name": "again"})), max_turns=3)
    result = await run.send("For ever")
    assert (result.status, result.turns) == ("max_turns", 3)
    assert len(seen.notes) == 3
    assert_whole(run.transcript)
    assert (await run.send("Once more")).turns == 6


async def test_a_run_that_may_take_more_turns_goes_on(host: Host) -> None:
    run = agent_of(host, [calling(("note", {"name": "one"})), "Done."], max_turns=1)
    assert (await run.send("Go")).status == "max_turns"
    run.max_turns = 2
    assert (await run.resume()).status == "completed"
    assert seen.notes == [("noted", "one")]


async def test_ids_that_a_model_uses_twice_or_not_at_all_are_told_apart(host: Host) -> None:
    calls = tuple(ToolCall(call_id, name_of("note"), '{"name": "x"}') for call_id in ("same", "same", "", ""))
    run = agent_of(host, [ModelReply("", calls), ModelReply("", calls[:1]), "Done."])
    await run.send("Go")
    assert len(seen.notes) == 5
    assert_whole(run.transcript)


async def test_a_model_that_fails_ends_the_run_and_a_resumed_run_asks_again(host: Host) -> None:
    failure = ModelError("Too many requests.", code="rate_limited", retryable=True, retry_after=2)
    run = agent_of(host, [calling(("note", {"name": "once"})), failure, "Done."])
    result = await run.send("Go")
    assert (result.status, result.error) == ("failed", failure)
    assert_whole(run.transcript)
    assert (await run.resume()).text == "Done."
    assert seen.notes == [("noted", "once")]
    assert requests_of(run)[1] == requests_of(run)[2]
    with pytest.raises(RunStateError, match="nothing to go on with"):
        await run.resume()


async def test_a_defect_of_a_model_is_an_error_of_the_model(host: Host) -> None:
    run = agent_of(host, [LookupError("hunter2"), "Done."])
    result = await run.send("Go")
    assert result.error is not None
    assert "LookupError" in str(result.error)
    assert "hunter2" not in str(result.error)
    assert (await run.send("Again")).status == "completed"


async def test_a_second_prompt_finds_the_first(host: Host) -> None:
    run = agent_of(host, ["One.", "Two."])
    await run.send("First")
    await run.send("Second")
    assert requests_of(run)[1].messages == (Prompt("First"), Replied("One."), Prompt("Second"))


async def test_two_things_at_once_are_refused(host: Host) -> None:
    run = agent_of(host, [calling(("hold", {"name": "gate"})), "Done."])
    first = asyncio.create_task(told(run.send("First")))
    await eventually(lambda: seen.runs["hold gate"])
    assert run.is_running
    for second in (run.send("Second"), run.resume(), run.answer({"x": 1})):
        with pytest.raises(RunStateError, match="goes on already"):
            await second
    seen.gate("gate").set()
    await first
    assert [message for message in run.transcript.messages() if isinstance(message, Prompt)] == [Prompt("First")]


async def test_a_prompt_that_is_no_unicode_is_refused_and_leaves_nothing(host: Host) -> None:
    run = agent_of(host, ["Hello"])
    with pytest.raises(NotJsonError):
        await run.send("\ud800")
    assert not run.transcript.records
    assert (await run.send("Hello")).status == "completed"


async def test_a_request_is_all_that_a_model_is_told(host: Host) -> None:
    """It sees the same transcript at every request, so a function of the request can be the model."""

    def reply(request: ModelRequest) -> ModelReply | str:
        last = request.messages[-1]
        if isinstance(last, Returned):
            return f"It is {last.text}."
        return calling(("add", {"a": len(request.messages), "b": 1}))

    assert (await agent_of(host, reply).send("Add")).text == 'It is {"sum":2}.'
