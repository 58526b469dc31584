"""A script whose calls ask waits, as data, and goes on with the answers; nothing that has ended is called again."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from grundlag_bus import (
    AnswerInvalidError,
    InterruptUnknownError,
    RunStateError,
    Sandbox,
    ScriptFailedError,
    ScriptReplayError,
    ToolContext,
    ToolInterrupt,
)
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host

BATCH = """\
import asyncio

async def asked(name: str) -> str:
    decided = await contractAsk(name)
    return f"{name} {decided['approved']} {decided['by']}"

first, total, second = await asyncio.gather(asked("e1"), contractAdd(1, 2), asked("e2"))
print("all answered")
[first, total["sum"], second]
"""
YES = {"approved": True}
NO = {"approved": False}


async def waits(sandbox: Sandbox, source: str = BATCH, context: ToolContext | None = None) -> ToolInterrupt:
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.run(source, context=context)
    return raised.value


async def waits_on(sandbox: Sandbox, asked: ToolInterrupt, answers: dict[str, Any], **options: Any) -> ToolInterrupt:
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.resume(asked, answers, **options)
    return raised.value


def kept(asked: ToolInterrupt) -> ToolInterrupt:
    """Give what another process has of an interrupt: its state, as JSON."""
    return ToolInterrupt("", state=orjson.loads(orjson.dumps(asked.state)))


def ids(asked: ToolInterrupt) -> list[str]:
    return [str(one.interrupt_id) for one in asked.pending]


async def test_all_interrupts_of_a_batch_are_collected_and_their_siblings_end(sandbox: Sandbox) -> None:
    asked = await waits(sandbox)
    assert [one.message for one in asked.pending] == ["Delete e1?", "Delete e2?"]
    assert [one.data for one in asked.pending] == [{"id": "e1"}, {"id": "e2"}]
    assert len(set(ids(asked))) == 2
    assert seen.runs["add"] == 1
    assert asked.answer_schema is not None
    assert sorted(asked.answer_schema["properties"]) == sorted(ids(asked))


async def test_a_running_sibling_ends_before_the_interrupt_is_raised(sandbox: Sandbox) -> None:
    source = "import asyncio\nawait asyncio.gather(contractAsk('e1'), contractHold('slow'))\nNone"
    running = asyncio.create_task(sandbox.run(source))
    await eventually(lambda: seen.runs["hold slow"] == 1)
    await asyncio.sleep(0.05)
    assert not running.done()
    seen.gate("slow").set()
    with pytest.raises(ToolInterrupt) as raised:
        await running
    await sandbox.resume(raised.value, {ids(raised.value)[0]: YES})
    assert seen.runs["hold slow"] == 1


async def test_all_answers_at_once_give_the_value(sandbox: Sandbox) -> None:
    asked = await waits(sandbox, context=ToolContext(user_id="ada"))
    first, second = ids(asked)
    result = await sandbox.resume(asked, {first: YES, second: NO}, context=ToolContext(user_id="ada"))
    assert result.value == ["e1 True ada", 3, "e2 False ada"]
    assert result.stdout == "all answered\n"
    assert seen.runs["add"] == 1
    assert seen.runs["ask"] == 2


async def test_some_answers_leave_the_others_pending_under_their_ids(sandbox: Sandbox) -> None:
    asked = await waits(sandbox)
    first, second = ids(asked)
    again = await waits_on(sandbox, asked, {second: NO})
    assert ids(again) == [first]
    assert again.interrupt_id != asked.interrupt_id
    result = await sandbox.resume(again, {first: YES})
    assert result.value == ["e1 True None", 3, "e2 False None"]
    assert (seen.runs["ask"], seen.runs["add"]) == (2, 1)


async def test_another_process_goes_on_from_the_state_as_json(host: Host, sandbox: Sandbox) -> None:
    asked = kept(await waits(sandbox))
    questions = asked.state["journal"]
    assert questions
    answers = {
        entry["outcome"]["interrupt"]["interruptId"]: YES
        for entry in questions
        if entry["kind"] == "settled" and entry["outcome"]["status"] == "interrupted"
    }
    result = await Sandbox(host.tools).resume(asked, answers)
    assert result.value == ["e1 True None", 3, "e2 True None"]
    assert seen.runs["add"] == 1


async def test_an_answer_to_nothing_that_is_pending_is_refused_and_nothing_runs(sandbox: Sandbox) -> None:
    asked = await waits(sandbox)
    with pytest.raises(InterruptUnknownError) as raised:
        await sandbox.resume(asked, {ids(asked)[0]: YES, "another": YES})
    assert raised.value.interrupt_ids == ("another",)
    with pytest.raises(RunStateError):
        await sandbox.resume(asked, {})
    assert seen.runs["ask"] == 0


async def test_an_answer_that_does_not_fit_is_refused_and_nothing_runs(sandbox: Sandbox) -> None:
    asked = await waits(sandbox)
    first, second = ids(asked)
    with pytest.raises(AnswerInvalidError):
        await sandbox.resume(asked, {first: YES, second: {"approved": "perhaps"}})
    assert seen.runs["ask"] == 0
    result = await sandbox.resume(asked, {first: YES, second: YES})
    assert result.value == ["e1 True None", 3, "e2 True None"]


async def test_a_used_answer_answers_nothing_that_is_asked_later(sandbox: Sandbox) -> None:
    source = "one = await contractAsk('e1')\ntwo = await contractAsk('e2')\n[one['approved'], two['approved']]"
    asked = await waits(sandbox, source)
    again = await waits_on(sandbox, asked, {ids(asked)[0]: YES})
    assert [one.message for one in again.pending] == ["Delete e2?"]
    with pytest.raises(InterruptUnknownError):
        await sandbox.resume(again, {ids(asked)[0]: YES})
    assert (await sandbox.resume(again, {ids(again)[0]: NO})).value == [True, False]


async def test_of_two_resumptions_of_one_interrupt_one_is_refused(sandbox: Sandbox) -> None:
    asked = await waits(sandbox, "await contractAsk('e1')")
    answers = {ids(asked)[0]: YES}
    both = await asyncio.gather(
        sandbox.resume(asked, answers), sandbox.resume(kept(asked), answers), return_exceptions=True
    )
    assert [type(one) for one in both if isinstance(one, Exception)] == [RunStateError]
    with pytest.raises(RunStateError):
        await sandbox.resume(asked, answers)
    assert seen.runs["ask"] == 1


async def test_a_cancelled_resumption_can_be_made_again(sandbox: Sandbox) -> None:
    source = "await contractAsk('e1')\nawait contractHold('late')\n1"
    asked = await waits(sandbox, source)
    running = asyncio.create_task(sandbox.resume(asked, {ids(asked)[0]: YES}))
    await eventually(lambda: seen.runs["hold late"] == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    seen.gate("late").set()
    assert (await sandbox.resume(asked, {ids(asked)[0]: YES})).value == 1


async def test_no_except_of_a_script_catches_an_interrupt(sandbox: Sandbox) -> None:
    source = "try:\n    await contractAsk('e1')\nexcept BaseException:\n    pass\n'done'"
    asked = await waits(sandbox, source)
    assert len(asked.pending) == 1


async def test_a_script_goes_on_as_far_as_it_can_beside_what_is_asked(sandbox: Sandbox) -> None:
    source = """\
import asyncio

async def twice() -> int:
    one = await contractAdd(1, 1)
    two = await contractAdd(one["sum"], 1)
    return two["sum"]

await asyncio.gather(contractAsk("e1"), twice())
"""
    asked = await waits(sandbox, source)
    assert seen.runs["add"] == 2
    result = await sandbox.resume(asked, {ids(asked)[0]: YES})
    assert result.value[1] == 3
    assert seen.runs["add"] == 2


async def test_an_uncaught_failure_counts_before_a_question(sandbox: Sandbox) -> None:
    source = "import asyncio\nawait asyncio.gather(contractAsk('e1'), contractRaise('ActionFailed'))"
    with pytest.raises(ScriptFailedError) as raised:
        await sandbox.run(source)
    assert [call.status for call in raised.value.calls] == ["interrupted", "failed"]


async def test_values_of_every_kind_survive_the_state(sandbox: Sandbox) -> None:
    source = "import asyncio\nboth = await asyncio.gather(contractEverything(), contractAsk('e1'))\nboth[0]"
    asked = await waits(sandbox, source)
    straight = (await sandbox.run("await contractEverything()")).value
    assert (await sandbox.resume(kept(asked), {ids(asked)[0]: YES})).value == straight


# --- what cannot be replayed ------------------------------------------------------------------------------------------


async def test_a_state_that_is_none_of_a_script_is_refused(sandbox: Sandbox) -> None:
    for state in (
        None,
        "sealed",
        {"v": 2},
        {"v": 1, "interruptId": "i"},
        {"v": 1, "interruptId": "i", "journal": [{}]},
    ):
        with pytest.raises(ScriptReplayError):
            await sandbox.resume(ToolInterrupt("?", state=state), {"i": YES})


@pytest.mark.parametrize(("part", "value"), [("function", "contractEcho"), ("digest", "another")])
async def test_a_replay_that_calls_something_else_stops_at_its_place(sandbox: Sandbox, part: str, value: str) -> None:
    asked = kept(await waits(sandbox))
    called = next(entry for entry in asked.state["journal"] if entry["kind"] == "called" and entry["call"] == 1)
    called[part] = value
    with pytest.raises(ScriptReplayError) as raised:
        await sandbox.resume(asked, dict.fromkeys(pending_in(asked), YES))
    assert raised.value.call == 1
    assert "line 7" in str(raised.value) or "line 4" in str(raised.value)


async def test_a_replay_that_is_given_outcomes_in_another_order_stops(sandbox: Sandbox) -> None:
    source = "one = await contractAdd(1, 2)\ntwo = await contractAdd(2, 3)\nawait contractAsk('e1')"
    asked = kept(await waits(sandbox, source))
    delivered = [entry for entry in asked.state["journal"] if entry["kind"] == "delivered"]
    delivered[0]["call"], delivered[1]["call"] = delivered[1]["call"], delivered[0]["call"]
    journal = asked.state["journal"]
    journal.sort(key=lambda entry: entry["kind"] == "delivered")
    with pytest.raises(ScriptReplayError) as raised:
        await sandbox.resume(asked, dict.fromkeys(pending_in(asked), YES))
    assert raised.value.call == 1


async def test_a_tool_that_is_gone_is_named(host: Host, sandbox: Sandbox) -> None:
    asked = kept(await waits(sandbox))
    with pytest.raises(ScriptReplayError, match="contractAdd"):
        await Sandbox(host.tools, allow=["contractAsk"]).resume(asked, dict.fromkeys(pending_in(asked), YES))


def pending_in(asked: ToolInterrupt) -> list[str]:
    outcomes = [entry["outcome"] for entry in asked.state["journal"] if entry["kind"] == "settled"]
    return [one["interrupt"]["interruptId"] for one in outcomes if one["status"] == "interrupted"]
