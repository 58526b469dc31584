"""Answers to what runs ask: whose they may be, which counts, and what becomes of the call."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import func, select, update

from grundlag_bus import (
    ActionInputValidationError,
    AnswerConflictError,
    AnswerInvalidError,
    ForbiddenError,
    InterruptExpiredError,
    InterruptUnknownError,
    Runs,
    RunStateError,
    Store,
)
from grundlag_bus.store.tables import interrupts, run_answers
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.runs import asked, ended, entries, failure, question, value

pytestmark = on_buses

TWO = "import asyncio\nawait asyncio.gather(contractAskBeside('a'), contractAskBeside('b'))"


async def test_what_is_asked_is_shown_with_all_that_an_answer_needs(runs: Runs) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"}, user_id="ada")
    await asked(runs, run)
    (question,) = await runs.pending("ada")
    assert (question.run_id, question.function, question.message) == (run.run_id, "contractAsk", "Delete a?")
    assert (question.data, question.input, question.answerer) == ({"id": "a"}, {"id": "a"}, "ada")
    assert question.answer_schema is not None
    assert question.answer_schema["required"] == ["approved"]
    assert question.expires_at is not None
    assert await runs.pending("bob") == ()
    assert await runs.interrupt(question.interrupt_id) == question


async def test_an_answer_before_the_others_lets_its_call_go_on_at_once(runs: Runs) -> None:
    source = "import asyncio\nawait asyncio.gather(contractAskBeside('a'), contractHold('gate'))"
    run = await runs.start_script(source)
    await runs.answer(await question(runs, run, "a"), {"approved": True})
    await eventually(lambda: seen.runs["askBeside"])
    assert not (await runs.get(run.run_id)).ended
    seen.gate("gate").set()
    assert (await value(runs, run))[0]["approved"] is True
    assert (seen.runs["askBeside"], seen.runs["hold gate"]) == (1, 1)


async def test_a_rejected_call_does_not_run_and_the_script_is_told(runs: Runs) -> None:
    source = "try:\n    await contractAsk('a')\nexcept RuntimeError as error:\n    told = str(error)\ntold"
    run = await runs.start_script(source, user_id="ada")
    await runs.reject((await asked(runs, run))["a"], by="ada", reason="not today")
    assert await value(runs, run) == "rejected: ada rejected the call: not today"
    assert seen.runs["ask"] == 0
    settled = [entry for entry in await entries(runs, run) if entry["kind"] == "settled"]
    assert [entry["outcome"]["status"] for entry in settled] == ["interrupted", "failed"]


async def test_a_rejected_run_of_one_call_fails_as_rejected(runs: Runs) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"})
    await runs.reject((await asked(runs, run))["a"])
    assert await failure(runs, run) == ("rejected", "Somebody rejected the call.")


async def test_an_edited_call_is_another_call_that_asks_by_itself(runs: Runs) -> None:
    run = await runs.start_script("await contractAsk('a')", user_id="ada")
    first = (await asked(runs, run))["a"]
    with pytest.raises(ActionInputValidationError, match='"id" is missing'):
        await runs.edit(first, {}, by="ada")
    await runs.edit(first, {"id": "b"}, by="ada")
    second = await question(runs, run, "b")
    assert second != first
    await runs.answer(second, {"approved": True}, by="ada")
    assert (await value(runs, run))["approved"] is True
    assert seen.runs["ask"] == 1
    edits = [entry for entry in await entries(runs, run) if entry["kind"] == "edited"]
    assert [(entry["interruptId"], entry["input"], entry["by"]) for entry in edits] == [(first, {"id": "b"}, "ada")]
    assert (await runs.interrupt(first)).status == "edited"


async def test_an_answer_that_does_not_fit_leaves_the_question_and_names_the_field(runs: Runs) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"})
    interrupt_id = (await asked(runs, run))["a"]
    with pytest.raises(AnswerInvalidError, match="approved: ") as refused:
        await runs.answer(interrupt_id, {"approved": "perhaps"})
    assert refused.value.issues[0].path == ("approved",)
    with pytest.raises(AnswerInvalidError, match="approved: nan is no JSON number"):
        await runs.answer(interrupt_id, {"approved": float("nan")})
    assert len(await runs.pending(run_id=run.run_id)) == 1
    await runs.answer(interrupt_id, {"approved": True})
    assert (await value(runs, run))["approved"] is True


async def test_who_may_not_answer_is_refused(runs: Runs) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"}, user_id="ada", answerer="boss")
    interrupt_id = (await asked(runs, run))["a"]
    for by in ("ada", None):
        with pytest.raises(ForbiddenError, match="for somebody else to answer"):
            await runs.answer(interrupt_id, {"approved": True}, by=by)
    with pytest.raises(InterruptUnknownError):
        await runs.answer("unknown", {"approved": True}, by="boss")
    await runs.answer(interrupt_id, {"approved": True}, by="boss")
    assert (await value(runs, run))["by"] == "boss"


async def test_of_two_answers_at_once_one_counts_and_the_other_is_told_whose_that_is(runs: Runs, store: Store) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"})
    interrupt_id = (await asked(runs, run))["a"]
    given = await asyncio.gather(
        *(runs.answer(interrupt_id, {"approved": by == "ada"}, by=by) for by in ("ada", "bob") * 10),
        return_exceptions=True,
    )
    refused = [each for each in given if isinstance(each, AnswerConflictError)]
    assert len(refused) == 10
    winner = refused[0].details["by"]
    assert f"was answered by '{winner}' before" in refused[0].message
    done = await value(runs, run)
    assert (done["by"], done["approved"]) == (winner, winner == "ada")
    assert seen.runs["ask"] == 1
    async with store.transaction() as connection:
        assert await connection.scalar(select(func.count()).select_from(run_answers)) == 1
    with pytest.raises(AnswerConflictError):
        await runs.reject(interrupt_id, by=winner)


async def test_an_unanswered_question_expires_with_its_call(runs: Runs, store: Store) -> None:
    run = await runs.start_call("contractAsk", {"id": "a"})
    interrupt_id = (await asked(runs, run))["a"]
    async with store.transaction() as connection:
        await connection.execute(update(interrupts).values(expires_at=store.now - 1))
    assert await failure(runs, run) == ("interrupt_expired", "Nobody answered in time: Delete a?")
    assert seen.runs["ask"] == 0
    with pytest.raises(InterruptExpiredError):
        await runs.answer(interrupt_id, {"approved": True})


async def test_a_question_of_an_ended_run_cannot_be_answered(runs: Runs) -> None:
    run = await runs.start_script(TWO)
    interrupt_ids = await asked(runs, run)
    await runs.cancel(run.run_id)
    await ended(runs, run)
    with pytest.raises(RunStateError, match="has ended"):
        await runs.answer(interrupt_ids["a"], {"approved": True})
    assert seen.runs["askBeside"] == 0


async def test_questions_are_told_on_the_bus(runs: Runs, host: Host) -> None:
    async with host.bus.events("interrupt.*") as events:
        run = await runs.start_call("contractAsk", {"id": "a"}, user_id="ada")
        interrupt_id = (await asked(runs, run))["a"]
        pending = await asyncio.wait_for(anext(events), 30)
        assert (pending.key, pending.user_id) == ("interrupt.pending", "ada")
        assert (pending.data["interruptId"], pending.data["message"]) == (interrupt_id, "Delete a?")
        await runs.answer(interrupt_id, {"approved": True}, by="ada")
        answered = await asyncio.wait_for(anext(events), 30)
        assert (answered.key, answered.data["answeredBy"]) == ("interrupt.answered", "ada")
