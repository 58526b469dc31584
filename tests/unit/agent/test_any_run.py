"""Whatever a model calls, whoever answers in whichever order, and wherever it is loaded again: a run stays whole."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grundlag_bus import ToolContext, ToolInterrupt, define_tool
from grundlag_bus.agent import (
    AgentEvent,
    AgentRun,
    AgentTools,
    Message,
    ModelReply,
    Prompt,
    Rejection,
    Replied,
    Returned,
    ScriptedModel,
    ToolCall,
    ToolEnded,
    ToolStarted,
)
from grundlag_bus.errors import ActionFailed, ModelError

KINDS = ("do", "doBeside", "fail", "failBeside", "ask", "askBeside", "askTwice", "unknown")
OFTEN = (*KINDS, "askBeside", "askBeside", "askBeside", "doBeside", "do")
replies = st.lists(st.lists(st.sampled_from(OFTEN), min_size=1, max_size=6), min_size=1, max_size=2)


class Tools:
    """Counts what each call, known by the number that it is given, did."""

    def __init__(self) -> None:
        self.started: Counter[int] = Counter()
        self.completed: Counter[int] = Counter()
        self.tools = AgentTools([self._tool(kind) for kind in KINDS if kind != "unknown"])

    def _tool(self, kind: str) -> Any:
        async def execute(given: Any, context: ToolContext) -> Any:
            number = given["n"]
            self.started[number] += 1
            await asyncio.sleep(0)
            asked = 0 if context.resumption is None else context.resumption.state
            if asked < {"ask": 1, "askBeside": 1, "askTwice": 2}.get(kind, 0):
                raise ToolInterrupt("Sure?", state=asked + 1)
            if kind.startswith("fail"):
                raise ActionFailed("no", "It did not work.")
            self.completed[number] += 1
            return number

        return define_tool(
            id=kind, name=kind, input={}, output={}, execute=execute, parallel_safe=kind.endswith("Beside")
        )


def script(wanted: Sequence[Sequence[str]], failing: Sequence[bool]) -> list[ModelReply | str | Exception]:
    told: list[ModelReply | str | Exception] = []
    number = 0
    for turn, kinds in enumerate(wanted):
        if turn < len(failing) and failing[turn]:
            told.append(ModelError("busy", retryable=True))
        made = []
        for kind in kinds:
            made.append(ToolCall.of(kind, {"n": number}, id="same"))
            number += 1
        told.append(ModelReply(calls=tuple(made)))
    return [*told, "Done."]


def assert_told_as_vendors_want_it(messages: Sequence[Message]) -> None:
    """Every call of a reply is returned right after it, once and in order."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, Returned):
            assert waiting.pop(0) == message.call_id
        else:
            assert not waiting
            waiting = [call.id for call in message.calls] if isinstance(message, Replied) else []
            assert isinstance(message, Prompt | Replied)
    assert not waiting


@settings(deadline=None, max_examples=150)
@given(wanted=replies, failing=st.lists(st.booleans(), max_size=3), data=st.data())
def test_any_run_ends_with_every_call_done_once(
    wanted: list[list[str]], failing: list[bool], data: st.DataObject
) -> None:
    asyncio.run(_go_on_to_the_end(wanted, failing, data))


async def _go_on_to_the_end(wanted: list[list[str]], failing: list[bool], data: st.DataObject) -> None:
    tools = Tools()
    model = ScriptedModel(script(wanted, failing))
    run = AgentRun(model, tools.tools)
    told: list[AgentEvent] = []
    going_on = run.send("Go")
    while True:
        told += [event async for event in going_on]
        status = going_on.result.status
        if data.draw(st.booleans(), label="load it again"):
            run = AgentRun.from_json(json.loads(json.dumps(run.to_json())), model=model, tools=tools.tools)
        if status == "completed":
            break
        if status == "failed":
            assert not run.transcript.open_calls
            going_on = run.resume()
        else:
            assert_nothing_ran_ahead(run, tools)
            going_on = run.answer(some_answers(run, data))
    assert len(run.transcript.calls) == sum(map(len, wanted))
    assert_each_call_was_done_once(run, tools, told)
    for messages in (run.transcript.messages(), *(request.messages for request in model.requests)):
        assert_told_as_vendors_want_it(messages)


def some_answers(run: AgentRun, data: st.DataObject) -> dict[str, Any]:
    ids = [pending.interrupt_id for pending in run.pending]
    assert ids
    assert len(set(ids)) == len(ids)
    chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True), label="answer these")
    return {name: Rejection() if data.draw(st.booleans(), label="reject it") else name for name in chosen}


def assert_nothing_ran_ahead(run: AgentRun, tools: Tools) -> None:
    """What comes after a question waits for its answer, but for safe neighbours."""
    number = len(run.transcript.calls) - len(run.transcript.replies[-1].calls)
    waits = beside = False
    for call in run.transcript.replies[-1].calls:
        is_beside = call.name.endswith("Beside")
        if waits and not (beside and is_beside):
            assert not tools.started[number]
            beside = False
        elif call.pending is not None:
            waits, beside = True, is_beside
        elif not is_beside:
            beside = False
        number += 1


def assert_each_call_was_done_once(run: AgentRun, tools: Tools, told: Sequence[AgentEvent]) -> None:
    starts = Counter(event.call.id for event in told if isinstance(event, ToolStarted))
    ends = Counter(event.call.id for event in told if isinstance(event, ToolEnded))
    for number, call in enumerate(run.transcript.calls):
        assert call.result is not None
        answers = [interrupt.answer for interrupt in call.interrupts if interrupt.answer is not None]
        assert len(answers) == len(call.interrupts)
        rejected = [answer.rejected for answer in answers]
        assert (call.result.value().code == "rejected") == any(rejected)
        assert tools.completed[number] == call.result.ok
        assert starts[call.id] == 1 + rejected.count(False)
        assert tools.started[number] == (0 if call.name == "unknown" else starts[call.id])
        assert ends[call.id] == 1


@settings(deadline=None, max_examples=150)
@given(wanted=replies, steps=st.integers(0, 12), data=st.data())
def test_a_run_that_is_left_anywhere_is_whole_and_goes_on(
    wanted: list[list[str]], steps: int, data: st.DataObject
) -> None:
    """Left by its host after some events, saved at each, or cancelled: nothing is called again that may have ended."""
    asyncio.run(_leave(wanted, steps, data))


async def _leave(wanted: list[list[str]], steps: int, data: st.DataObject) -> None:
    tools = Tools()
    model = ScriptedModel(script(wanted, ()))
    run = AgentRun(model, tools.tools)
    saved = run.to_json()
    events = run.send("Go")
    done = 0
    async for _ in events:
        done += 1
        saved = json.loads(json.dumps(run.to_json()))
        for number, call in enumerate(run.transcript.calls):
            assert call.started_at is not None or not tools.started[number]
        if done > steps:
            break
    how = data.draw(st.sampled_from(["cancelled", "closed", "killed"]), label="it is")
    if how == "cancelled":
        run.cancel()
        async for _ in events:
            pass
    await events.aclose()
    if how == "killed":
        before = Counter(tools.completed)
        run = AgentRun.from_json(saved, model=ScriptedModel(["Done."]), tools=tools.tools)
        waits = any(call.waits for call in run.transcript.calls)
        assert waits or not run.transcript.open_calls
        assert tools.completed == before
    elif not run.pending:
        assert not run.transcript.open_calls
    run.cancel()
    assert not run.transcript.open_calls
    assert_told_as_vendors_want_it(run.transcript.messages())
    again = AgentRun.from_json(run.to_json(), model=ScriptedModel(["Hello."]), tools=tools.tools)
    assert (await again.send("Hello")).text == "Hello."
    assert max(tools.completed.values(), default=1) == 1
