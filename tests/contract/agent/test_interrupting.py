"""A run that must ask: all questions are collected, each answer counts once, and nothing that ended runs again."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from grundlag_bus import AnswerInvalidError, InterruptUnknownError, RunStateError, Tool
from grundlag_bus.agent import (
    AgentRun,
    AgentTools,
    AnswerRefused,
    Rejection,
    Returned,
    ScriptedModel,
    ToolEnded,
    ToolStarted,
)
from grundlag_bus.errors import ModelError
from grundlag_bus.providers import interrupts
from tests.support.agents import agent_of, assert_whole, calling, kinds, only, requests_of, result_of, results, told
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host

YES, NO = {"approved": True}, {"approved": False}


async def tools_that_check_no_answer(host: Host) -> dict[str, Tool]:
    manifest = await host.bus.manifest()
    (provider,) = manifest.providers
    actions = tuple(action.model_copy(update={"answer": None}) for action in provider.actions)
    lax = provider.model_copy(update={"actions": actions})
    return await host.tools_of(manifest.model_copy(update={"providers": (lax,)}))


def asking_two(*others: tuple[str, Any]) -> Any:
    return calling(("askBeside", {"id": "e1"}), ("askBeside", {"id": "e2"}), *others)


async def test_a_question_ends_the_run_with_all_that_a_person_needs(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Deleted."])
    result = await run.send("Delete e1")
    assert result.status == "interrupted"
    (pending,) = result.pending
    assert (pending.message, pending.data, pending.call.id) == ("Delete e1?", {"id": "e1"}, "a")
    assert pending.answer_schema == host.tool("ask").answer
    assert pending.expires_at is not None
    assert run.pending == result.pending
    assert len(requests_of(run)) == 1


async def test_an_answer_goes_on_where_the_run_was(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Deleted."], user_id="ada")
    interrupt_id = only(await run.send("Delete e1"))
    result = await run.answer({interrupt_id: YES})
    assert (result.status, result.text, run.pending) == ("completed", "Deleted.", ())
    decided = result_of(run, "a").data
    assert (decided["approved"], decided["by"], decided["state"]) == (True, "ada", {"version": 7})
    assert_whole(run.transcript)


async def test_who_answered_reaches_the_action(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Deleted."], user_id="ada")
    await run.answer({only(await run.send("Delete e1")): YES}, by="bob")
    assert result_of(run, "a").data["by"] == "bob"


async def test_every_question_of_a_batch_is_collected_and_its_running_siblings_end_first(host: Host) -> None:
    run = agent_of(host, [asking_two(("holdBeside", {"name": "gate"})), "Done."])
    going_on = asyncio.create_task(told(run.send("Delete both")))
    await eventually(lambda: len(run.pending) == 2 and ("started", "gate") in seen.notes)
    assert not going_on.done()
    seen.gate("gate").set()
    events = await going_on
    assert kinds(events).count("InterruptRaised") == 2
    assert kinds(events)[-1] == "RunEnded"
    assert [pending.data["id"] for pending in run.pending] == ["e1", "e2"]
    assert result_of(run, "c").data == {"name": "gate"}


async def test_what_ended_is_not_called_again(host: Host) -> None:
    run = agent_of(host, [calling(("note", {"name": "first"}), ("ask", {"id": "e1"})), "Done."])
    seen_before = await run.send("Go")
    events = await told(run.answer({only(seen_before): YES}))
    assert [event.call.id for event in events if isinstance(event, ToolStarted)] == ["b"]
    assert seen.notes == [("noted", "first")]
    assert seen.runs["ask"] == 1


async def test_some_answers_go_on_and_the_other_questions_stay(host: Host) -> None:
    run = agent_of(host, [asking_two(), "Done."])
    first, second = (await run.send("Delete both")).pending
    result = await run.answer({second.interrupt_id: YES})
    assert result.status == "interrupted"
    assert only(result) == first.interrupt_id
    assert result_of(run, "b").data["approved"] is True
    result = await run.answer({first.interrupt_id: NO})
    assert result.status == "completed"
    assert result_of(run, "a").data["approved"] is False
    assert seen.notes.count(("answered", "e1")) == seen.notes.count(("answered", "e2")) == 1


async def test_all_answers_at_once_reach_their_own_calls(host: Host) -> None:
    run = agent_of(host, [asking_two(), "Done."])
    first, second = (await run.send("Delete both")).pending
    assert first.interrupt_id != second.interrupt_id
    await run.answer({second.interrupt_id: NO, first.interrupt_id: YES})
    assert [result_of(run, call).data["approved"] for call in "ab"] == [True, False]
    returned = [message.call_id for message in requests_of(run)[1].messages if isinstance(message, Returned)]
    assert returned == ["a", "b"]


async def test_a_call_after_a_question_waits_for_its_answer(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"}), ("note", {"name": "after"})), "Done."])
    interrupt_id = only(await run.send("Go"))
    assert not seen.notes
    await run.answer({interrupt_id: YES})
    assert seen.notes == [("noted", "after")]
    assert_whole(run.transcript)


async def test_a_call_after_two_questions_waits_for_both_answers(host: Host) -> None:
    run = agent_of(host, [asking_two(("note", {"name": "after"})), "Done."])
    first, second = (await run.send("Go")).pending
    await run.answer({first.interrupt_id: YES})
    assert ("noted", "after") not in seen.notes
    await run.answer({second.interrupt_id: YES})
    assert seen.notes[-1] == ("noted", "after")


async def test_an_answer_counts_once(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), calling(("ask", {"id": "e2"})), "Done."])
    first = only(await run.send("Delete both"))
    second = only(await run.answer({first: YES}))
    assert second != first
    with pytest.raises(InterruptUnknownError) as raised:
        await run.answer({first: YES})
    assert (raised.value.interrupt_ids, raised.value.pending) == ((first,), (second,))
    assert seen.runs["ask"] == 1
    assert [pending.interrupt_id for pending in run.pending] == [second]


async def test_an_answer_to_nothing_is_refused_with_all_that_came_with_it(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    with pytest.raises(InterruptUnknownError, match="'nothing'"):
        await run.answer({interrupt_id: YES, "nothing": YES})
    with pytest.raises(RunStateError, match="no answer"):
        await run.answer({})
    assert [pending.interrupt_id for pending in run.pending] == [interrupt_id]
    assert not seen.runs


async def test_a_run_that_has_ended_takes_no_answer(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    await run.answer({interrupt_id: YES})
    with pytest.raises(InterruptUnknownError, match="pending: none"):
        await run.answer({interrupt_id: YES})
    assert seen.runs["ask"] == 1


async def test_of_two_answers_at_once_one_runs(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    ended = await asyncio.gather(*(run.answer({interrupt_id: answer}) for answer in (YES, NO)), return_exceptions=True)
    assert [type(each).__name__ for each in ended] == ["RunResult", "RunStateError"]
    assert seen.runs["ask"] == 1


@pytest.mark.parametrize(
    "answer", [{"approved": "perhaps"}, {}, None, [True], object(), {"approved": True, "note": 1e999}]
)
async def test_an_answer_that_does_not_fit_leaves_the_question_pending(host: Host, answer: Any) -> None:
    run = agent_of(host, [asking_two(), "Done."])
    first, second = (await run.send("Delete both")).pending
    with pytest.raises(AnswerInvalidError) as raised:
        await run.answer({first.interrupt_id: YES, second.interrupt_id: answer})
    assert raised.value.issues
    assert len(run.pending) == 2
    assert not seen.runs
    assert (await run.answer({first.interrupt_id: YES, second.interrupt_id: YES})).status == "completed"


async def test_an_answer_that_the_action_itself_refuses_leaves_the_question_pending(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    ((_, interrupt),) = run.transcript.pending
    interrupt.answer_schema = None  # so that nothing on this side knows what fits
    run._tools = AgentTools(await tools_that_check_no_answer(host))
    events = await told(run.answer({interrupt_id: {"approved": "perhaps"}}))
    (refused,) = [event for event in events if isinstance(event, AnswerRefused)]
    assert [issue.path for issue in refused.pending.refused] == [("approved",)]
    assert [pending.interrupt_id for pending in run.pending] == [interrupt_id]
    assert not seen.runs
    assert (await run.answer({interrupt_id: YES})).status == "completed"
    assert seen.runs["ask"] == 1


async def test_a_rejected_call_does_not_run_and_the_model_is_told(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "As you wish."])
    interrupt_id = only(await run.send("Delete e1"))
    events = await told(run.reject(interrupt_id, reason="Not on a Monday."))
    assert kinds(events) == ["ToolEnded", "ReplyEnded", "TurnEnded", "RunEnded"]
    result = results(events)["a"]
    assert (result.ok, result.code) == (False, "rejected")
    assert "Not on a Monday." in result.text
    (returned,) = [message for message in requests_of(run)[1].messages if isinstance(message, Returned)]
    assert "rejected" in returned.text
    assert not seen.runs
    with pytest.raises(InterruptUnknownError):
        await run.answer({interrupt_id: YES})


async def test_one_question_is_rejected_and_another_answered(host: Host) -> None:
    run = agent_of(host, [asking_two(), "Done."])
    first, second = (await run.send("Delete both")).pending
    await run.answer({first.interrupt_id: Rejection("Keep it."), second.interrupt_id: YES})
    assert result_of(run, "a").code == "rejected"
    assert result_of(run, "b").ok
    assert seen.runs["askBeside"] == 1


async def test_an_answer_stays_given_when_the_run_fails_afterwards(host: Host) -> None:
    failure = ModelError("gone", code="unreachable", retryable=True)
    run = agent_of(host, [calling(("ask", {"id": "e1"})), failure, "Deleted."])
    interrupt_id = only(await run.send("Delete e1"))
    assert (await run.answer({interrupt_id: YES})).status == "failed"
    assert (await run.resume()).text == "Deleted."
    assert result_of(run, "a").data["approved"] is True
    assert seen.runs["ask"] == 1


async def test_nobody_is_asked_about_a_call_that_is_not_valid(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"name": "e1"})), "I see."])
    assert (await run.send("Delete e1")).status == "completed"
    assert result_of(run, "a").code == "input_invalid"


async def test_an_approval_cannot_be_forged_in_the_serialised_form(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "I see."], user_id="ada")
    interrupt_id = only(await run.send("Delete e1"))
    asked = run.to_json()["transcript"]["records"][1]["calls"][0]["interrupts"][0]
    for forged in (
        {"arguments": '{"id":"e2"}'},
        {"name": "contractAskToo", "actionId": "askToo"},
        {"interrupts": [{**asked, "state": "made up"}]},
    ):
        data = run.to_json()
        data["transcript"]["records"][1]["calls"][0] |= forged
        other = AgentRun.from_json(data, model=ScriptedModel(["I see."]), tools=AgentTools(host.tools))
        await other.answer({interrupt_id: YES})
        assert result_of(other, "a").code == "state_invalid"
    assert not seen.runs


async def test_a_prompt_waits_until_the_questions_are_answered(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done.", "Good morning."])
    interrupt_id = only(await run.send("Delete e1"))
    for going_on in (run.send("Never mind"), run.resume()):
        with pytest.raises(RunStateError, match="answer or reject"):
            await going_on
    await run.answer({interrupt_id: YES})
    assert (await run.send("Hello")).text == "Good morning."


async def test_questions_that_nobody_will_answer_can_be_left_behind(host: Host) -> None:
    run = agent_of(host, [asking_two(), "Good morning."])
    await run.send("Delete both")
    run.cancel()
    assert run.pending == ()
    assert result_of(run, "a").code == "cancelled"
    assert (await run.send("Hello")).text == "Good morning."
    assert_whole(run.transcript)


async def test_items_of_both_starts_are_kept_once(host: Host) -> None:
    run = agent_of(host, [calling(("askForItems", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    await run.answer({interrupt_id: YES})
    assert [item.type for item in run.transcript.items.list()] == ["asked", "answered"]


async def test_a_question_that_was_answered_too_late_is_told_to_the_model(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Too late."])
    with monkeypatch.context() as patched:
        patched.setattr(interrupts, "EXPIRY", -1.0)
        interrupt_id = only(await run.send("Delete e1"))
    assert (await run.answer({interrupt_id: YES})).status == "completed"
    assert result_of(run, "a").code == "interrupt_expired"
    assert not seen.runs


# --- from its serialised form -----------------------------------------------------------------------------------------


async def moved(run: AgentRun, host: Host, *replies: str) -> AgentRun:
    """Go on with a run as another process would: by its text, with tools of another caller."""
    text = json.dumps(run.to_json())
    other = host if host.kind == "in-process" else await host.another_bus()
    return AgentRun.from_json(json.loads(text), model=ScriptedModel(replies), tools=AgentTools(other.tools))


async def test_questions_can_be_answered_in_another_process(host: Host) -> None:
    run = agent_of(host, [asking_two(("note", {"name": "after"})), "never asked"], user_id="ada")
    await run.send("Delete both")
    other = await moved(run, host, "Done.")
    assert other.pending == run.pending
    first, second = other.pending
    result = await other.answer({first.interrupt_id: YES, second.interrupt_id: NO})
    assert (result.status, result.text) == ("completed", "Done.")
    assert [result_of(other, call).data["approved"] for call in "ab"] == [True, False]
    assert result_of(other, "a").data["by"] == "ada"
    assert seen.notes[-1] == ("noted", "after")
    assert_whole(other.transcript)


async def test_a_call_that_ran_when_its_process_ended_is_not_called_again(host: Host) -> None:
    run = agent_of(host, [calling(("note", {"name": "first"}), ("hold", {"name": "gate"}), ("note", {"name": "last"}))])
    going_on = asyncio.create_task(told(run.send("Go")))
    await eventually(lambda: seen.runs["hold gate"])
    other = await moved(run, host, "I shall look.")
    going_on.cancel()
    await asyncio.wait({going_on})
    assert [result_of(other, call).code for call in "abc"] == [None, "outcome_unknown", "cancelled"]
    assert (await other.resume()).text == "I shall look."
    assert seen.runs["hold gate"] == 1
    assert seen.notes == [("noted", "first")]
    assert_whole(other.transcript)


async def test_an_answer_is_not_lost_with_the_process_that_took_it(host: Host) -> None:
    run = agent_of(host, [asking_two(), "never asked"])
    first, second = (await run.send("Delete both")).pending
    async with aclosing(run.answer({first.interrupt_id: Rejection(), second.interrupt_id: YES})) as events:
        assert isinstance(await anext(events), ToolEnded)  # of the rejected one: the other has not started
        other = await moved(run, host, "Done.")
    assert other.pending == ()
    with pytest.raises(RunStateError):
        await other.send("Hello")
    assert (await other.resume()).status == "completed"
    assert result_of(other, "a").code == "rejected"
    assert result_of(other, "b").data["approved"] is True
    assert seen.runs["askBeside"] == 1
    assert_whole(other.transcript)


async def test_a_run_that_has_ended_says_so_after_it_was_moved(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    await run.answer({interrupt_id: YES})
    other = await moved(run, host, "Good morning.")
    with pytest.raises(InterruptUnknownError):
        await other.answer({interrupt_id: YES})
    with pytest.raises(RunStateError):
        await other.resume()
    assert (await other.send("Hello")).text == "Good morning."
    assert other.to_json()["transcript"]["records"][:3] == run.to_json()["transcript"]["records"]


async def test_a_tool_that_has_another_name_now_is_found_again(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    renamed = AgentTools({"ask_2": host.tools["contractAsk"]})
    other = AgentRun.from_json(run.to_json(), model=ScriptedModel(["Done."]), tools=renamed)
    await other.answer({interrupt_id: YES})
    assert result_of(other, "a").ok


async def test_a_tool_that_is_gone_is_told_to_the_model(host: Host) -> None:
    run = agent_of(host, [calling(("ask", {"id": "e1"})), "Done."])
    interrupt_id = only(await run.send("Delete e1"))
    other = AgentRun.from_json(
        run.to_json(), model=ScriptedModel(["Gone."]), tools=AgentTools(host.tools, ["contractAdd"])
    )
    assert (await other.answer({interrupt_id: YES})).text == "Gone."
    assert result_of(other, "a").summary == "Unknown tool: contractAsk"
    assert not seen.runs
