"""Interrupts: a person answers, and nobody else's answer, state or input counts."""

from __future__ import annotations

import asyncio
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from grundlag_bus import (
    AnswerInvalidError,
    InternalError,
    InterruptExpiredError,
    NestedInterruptError,
    StateInvalidError,
    ToolContext,
    ToolInterrupt,
    gather_outcomes,
)
from grundlag_bus.providers import interrupts
from tests.support.contract_registry import seen
from tests.support.hosts import Host, on_buses

ADA = ToolContext(user_id="ada")
YES = {"approved": True}


def changed(interrupt: ToolInterrupt, **changes: Any) -> ToolInterrupt:
    other = copy(interrupt)
    for name, value in changes.items():
        assert hasattr(other, name)
        setattr(other, name, value)
    return other


async def test_an_interrupt_carries_all_that_a_person_and_a_resumption_need(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"}, ADA)
    assert (interrupt.message, interrupt.data, interrupt.input) == ("Delete e1?", {"id": "e1"}, {"id": "e1"})
    assert interrupt.answer_schema == host.tool("ask").answer
    assert interrupt.expires_at is not None
    assert timedelta(days=29) < interrupt.expires_at - datetime.now(UTC) <= timedelta(days=30)
    assert isinstance(interrupt.state, str)
    assert "7" not in interrupt.state or "version" not in interrupt.state


async def test_a_good_answer_goes_on_with_state_and_who_answered(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"}, ADA)
    decided = await host.tool("ask").resume(interrupt, YES, ADA)
    assert (decided["approved"], decided["by"], decided["state"]) == (True, "ada", {"version": 7})
    decided = await host.tool("ask").resume(interrupt, {"approved": False}, ADA, by="bob")
    assert (decided["approved"], decided["by"]) == (False, "bob")


@pytest.mark.parametrize("answer", [{"approved": "perhaps"}, {}, None, [True]])
async def test_a_bad_answer_leaves_the_interrupt_pending(host: Host, answer: Any) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(AnswerInvalidError) as raised:
        await host.tool("ask").resume(interrupt, answer)
    assert raised.value.action_id == "ask"
    assert raised.value.issues
    assert not seen.runs
    assert (await host.tool("ask").resume(interrupt, YES))["approved"]


async def test_a_bad_answer_is_refused_where_the_action_is_when_the_caller_lets_it_pass(host: Host) -> None:
    lax = dict.fromkeys(("answer",), None)
    manifest = await host.bus.manifest()
    (provider,) = manifest.providers
    actions = tuple(action.model_copy(update=lax) for action in provider.actions)
    manifest = manifest.model_copy(update={"providers": (provider.model_copy(update={"actions": actions}),)})
    tool = (await host.tools_of(manifest))["contractAsk"]
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(AnswerInvalidError) as raised:
        await tool.resume(interrupt, {"approved": "perhaps"})
    assert [issue.path for issue in raised.value.issues] == [("approved",)]
    assert not seen.runs
    assert (await tool.resume(interrupt, YES))["approved"]


@on_buses
async def test_the_answer_may_reach_another_worker_than_the_question(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    await host.stop_workers()
    await host.add_worker()
    assert (await host.tool("ask").resume(interrupt, YES))["state"] == {"version": 7}


@on_buses
async def test_the_answer_may_come_from_another_caller(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"}, ADA)
    other = await host.another_bus()
    assert (await other.tool("ask").resume(interrupt, YES, ADA))["approved"]


async def test_no_bit_of_the_sealed_state_may_change(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    places = sorted({0, 1, 11, 20, len(interrupt.state) // 2, len(interrupt.state) - 1})
    for place in places:
        letter = chr(ord(interrupt.state[place]) ^ 1)
        state = interrupt.state[:place] + letter + interrupt.state[place + 1 :]
        with pytest.raises(StateInvalidError):
            await host.tool("ask").resume(changed(interrupt, state=state), YES)
    assert not seen.runs


@pytest.mark.parametrize("state", ["", "x", "ümlaut", "A" * 500])
async def test_what_was_never_sealed_is_refused(host: Host, state: str) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(StateInvalidError):
        await host.tool("ask").resume(changed(interrupt, state=state), YES)
    assert not seen.runs


@pytest.mark.parametrize("user", ["bob", None])
async def test_the_state_of_another_user_is_refused(host: Host, user: str | None) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"}, ADA)
    with pytest.raises(StateInvalidError):
        await host.tool("ask").resume(interrupt, YES, ToolContext(user_id=user))
    assert not seen.runs


async def test_the_state_of_another_input_is_refused(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(StateInvalidError):
        await host.tool("ask").resume(changed(interrupt, input={"id": "e2"}), YES)
    assert not seen.runs


async def test_the_state_of_another_action_is_refused(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(StateInvalidError):
        await host.tool("askToo").resume(interrupt, YES)
    assert not seen.runs


async def test_the_state_of_another_interrupt_is_refused(host: Host) -> None:
    first, second = [await host.interrupt("ask", {"id": "e1"}) for _ in range(2)]
    assert first.interrupt_id != second.interrupt_id
    with pytest.raises(StateInvalidError):
        await host.tool("ask").resume(changed(first, state=second.state), YES)
    assert not seen.runs


async def test_the_state_of_another_namespace_is_refused(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    other = await host.another_bus(namespace=f"{host.namespace}-other")
    with pytest.raises(StateInvalidError):
        await other.tool("ask").resume(interrupt, YES)
    assert not seen.runs


async def test_an_interrupt_that_was_answered_too_late_has_expired(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(interrupts, "EXPIRY", -1.0)
        interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(InterruptExpiredError):
        await host.tool("ask").resume(interrupt, YES)
    assert not seen.runs


async def test_the_same_answer_sent_twice_at_once_is_one_call(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    first, second = await asyncio.gather(*(host.tool("ask").resume(interrupt, YES) for _ in range(2)))
    assert first == second
    assert seen.runs["ask"] == 1


async def test_an_answer_in_another_users_name_does_not_share_the_reply(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"}, ADA)
    forged = changed(interrupt, state=interrupt.state[:-1] + ("A" if interrupt.state[-1] != "A" else "B"))
    other = changed(interrupt, input={"id": "e2"})
    right, *wrong = await gather_outcomes(
        host.tool("ask").resume(interrupt, YES, ADA),
        host.tool("ask").resume(interrupt, YES, ToolContext(user_id="bob")),
        host.tool("ask").resume(forged, YES, ADA),
        host.tool("ask").resume(other, YES, ADA),
    )
    assert right.status == "completed"
    assert [type(outcome.error) for outcome in wrong] == [StateInvalidError] * 3
    assert seen.runs["ask"] == 1


async def test_an_answer_goes_on_while_one_of_those_who_gave_it_waits(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    first, second = [asyncio.create_task(host.tool("ask").resume(interrupt, YES)) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second)["approved"]
    assert seen.runs["ask"] == 1


@on_buses
async def test_the_same_answer_of_two_callers_at_once_reaches_both(host: Host) -> None:
    other = await host.another_bus()
    interrupt = await host.interrupt("ask", {"id": "e1"})
    first, second = await asyncio.gather(
        host.tool("ask").resume(interrupt, YES), other.tool("ask").resume(interrupt, YES)
    )
    assert first == second


async def test_two_answers_are_two_calls(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    ids = {(await host.tool("ask").resume(interrupt, {"approved": yes}))["call_id"] for yes in (True, False)}
    assert len(ids) == 2


async def test_an_inner_calls_interrupt_does_not_leave_the_outer_action(host: Host) -> None:
    with pytest.raises(NestedInterruptError):
        await host.execute("nest", {"id": "e1"})


async def test_an_action_that_declares_no_answer_may_not_interrupt(host: Host) -> None:
    with pytest.raises(InternalError):
        await host.execute("interruptUndeclared")


async def test_an_answer_to_a_call_that_does_not_ask_is_refused(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(StateInvalidError):
        await host.tool("echo").resume(changed(interrupt, input={}), YES)
