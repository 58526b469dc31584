"""From a manifest to tools: the call that a tool makes, and what becomes of each reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import (
    ActionFailed,
    ActionInputValidationError,
    ActionOutputValidationError,
    AnswerInvalidError,
    Call,
    CallError,
    Completed,
    Failed,
    Interrupted,
    ItemStore,
    Manifest,
    Reply,
    Response,
    Tool,
    ToolContext,
    ToolInterrupt,
    ToolResumption,
    to_tools,
)
from grundlag_bus.schema.items import new_item
from grundlag_bus.schema.manifest import ActionManifest, ProviderManifest, build_manifest
from grundlag_bus.schema.progress import ProgressSink

NOW = 1_000_000.0
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Told:
    """A caller that keeps what it was asked, and replies as it was told."""

    def __init__(self, response: Response | None = None) -> None:
        self.calls: list[Call] = []
        self._response = response or Completed({"n": 1})

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        self.calls.append(call)
        return Reply(call.call_id, self._response, "told")


def manifest_of(**changes: Any) -> Manifest:
    action = ActionManifest(id="act", name="Act", input=NUMBER, output=NUMBER, answer=NUMBER, **changes)
    return build_manifest([ProviderManifest(id="p", name="P", actions=(action,))])


def tool_of(caller: Told, **changes: Any) -> Tool:
    return to_tools(manifest_of(**changes), caller, clock=lambda: NOW)["pAct"]


async def test_a_call_says_what_the_manifest_and_the_context_say() -> None:
    caller = Told()
    tool = tool_of(caller, lane="fast", idempotent=True)
    await tool.execute({"n": 1}, ToolContext(user_id="ada", timeout=5))
    await tool.execute({"n": 1})
    first, second = caller.calls
    assert (first.provider_id, first.action_id, first.lane, first.user_id) == ("p", "act", "fast", "ada")
    assert (first.request.input, first.request.resumption, first.request.items) == ({"n": 1}, None, [])
    assert (first.sent_at, first.deadline, second.deadline) == (NOW, NOW + 5, NOW + 300)
    assert first.idempotent
    assert second.user_id is None
    assert first.call_id != second.call_id


async def test_a_lane_for_long_calls_has_a_day() -> None:
    caller = Told()
    await tool_of(caller, lane="long").execute({"n": 1})
    assert caller.calls[0].deadline == NOW + 24 * 3600


async def test_what_does_not_fit_the_schema_is_not_sent() -> None:
    caller = Told()
    tool = tool_of(caller)
    for bad in ({}, {"n": "1"}, {"n": {1}}, None):
        with pytest.raises(ActionInputValidationError):
            await tool.execute(bad)
    resumption = ToolResumption("i", {"n": "no"}, "sealed")
    with pytest.raises(AnswerInvalidError):
        await tool.execute({"n": 1}, ToolContext(resumption=resumption))
    assert not caller.calls


async def test_a_result_that_does_not_fit_the_schema_is_refused() -> None:
    with pytest.raises(ActionOutputValidationError):
        await tool_of(Told(Completed({"n": "1"}))).execute({"n": 1})


async def test_the_same_answer_is_the_same_call_and_anything_else_is_another() -> None:
    caller = Told()
    tool = tool_of(caller)
    same = [("i", 1, "s", "ada", 1)] * 2
    others = [("j", 1, "s", "ada", 1), ("i", 2, "s", "ada", 1), ("i", 1, "t", "ada", 1), ("i", 1, "s", "bob", 1)]
    for interrupt, answer, state, user, n in [*same, *others, ("i", 1, "s", "ada", 2)]:
        context = ToolContext(user_id=user, resumption=ToolResumption(interrupt, {"n": answer}, state))
        await tool.execute({"n": n}, context)
    first, second, *rest = [call.call_id for call in caller.calls]
    assert first == second
    assert len({first, *rest}) == 6


async def test_only_the_items_that_the_action_reads_are_sent() -> None:
    caller = Told()
    items = ItemStore([new_item("note", 1), new_item("place", 2)])
    for reads, sent in ((None, [1, 2]), (("note",), [1]), ((), [])):
        await tool_of(caller, reads=reads).execute({"n": 1}, ToolContext(items=items))
        assert [item["data"] for item in caller.calls[-1].request.items] == sent


@pytest.mark.parametrize("status", ["completed", "interrupted", "failed", "invalid"])
async def test_items_are_folded_in_whatever_the_outcome(status: str) -> None:
    emitted = [new_item("note", 1).to_json()]
    response: Response = {
        "completed": Completed({"n": 1}, emitted),
        "invalid": Completed({"n": "1"}, emitted),
        "interrupted": Interrupted("i", "?", None, "sealed", NOW, None, emitted),
        "failed": Failed("sold_out", "None left.", items=emitted),
    }[status]  # type: ignore[assignment]
    items = ItemStore()
    try:
        await tool_of(Told(response)).execute({"n": 1}, ToolContext(items=items))
    except (ToolInterrupt, CallError):
        assert status != "completed"
    assert [item.data for item in items] == [1]


async def test_an_interrupt_is_raised_with_all_that_a_resumption_needs() -> None:
    response = Interrupted("i1", "Sure?", {"a": 1}, "sealed", NOW, NUMBER)
    with pytest.raises(ToolInterrupt) as raised:
        await tool_of(Told(response)).execute({"n": 1})
    interrupt = raised.value
    assert (interrupt.interrupt_id, interrupt.message, interrupt.data) == ("i1", "Sure?", {"a": 1})
    assert (interrupt.state, interrupt.input, interrupt.answer_schema) == ("sealed", {"n": 1}, NUMBER)
    assert interrupt.expires_at is not None
    assert interrupt.expires_at.timestamp() == NOW


@pytest.mark.parametrize(
    "details",
    [None, 1, {}, {"issues": None}, {"issues": 1}, {"issues": [1]}, {"issues": {"a": 1}}, {"issues": [{"path": 1}]}],
)
async def test_an_action_may_choose_any_code_for_a_failure_of_its_own(details: Any) -> None:
    for code in ("input_invalid", "answer_invalid", "internal", "sold_out"):
        with pytest.raises(CallError) as raised:
            await tool_of(Told(Failed(code, "It did not work.", details))).execute({"n": 1})
        assert raised.value.code == code


async def test_a_failure_is_raised_with_all_that_was_said() -> None:
    with pytest.raises(ActionFailed) as raised:
        await tool_of(Told(Failed("sold_out", "None left.", {"left": 0}, retryable=True))).execute({"n": 1})
    error = raised.value
    assert (error.code, error.message, error.details, error.retryable) == ("sold_out", "None left.", {"left": 0}, True)
    issue = {"path": ["a", 0], "code": "missing", "message": "Field required"}
    with pytest.raises(ActionInputValidationError) as refused:
        await tool_of(Told(Failed("input_invalid", "", {"actionId": "act", "issues": [issue]}))).execute({"n": 1})
    assert [each.to_json() for each in refused.value.issues] == [issue]


def test_tools_carry_what_the_manifest_says() -> None:
    tool = tool_of(Told(), description="Acts.", reads=("note",), idempotent=True, parallel_safe=True)
    assert (tool.id, tool.name, tool.description) == ("pAct", "Act", "Acts.")
    assert (tool.provider_id, tool.action_id, tool.reads) == ("p", "act", ("note",))
    assert (tool.input, tool.output, tool.answer) == (NUMBER, NUMBER, NUMBER)
    assert (tool.idempotent, tool.parallel_safe) == (True, True)
