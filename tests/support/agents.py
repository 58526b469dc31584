"""Agents of the contract tests: what a scripted model calls, and all that a run tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grundlag_bus.agent import (
    AgentEvent,
    AgentRun,
    AgentTools,
    ModelReply,
    ModelRequest,
    RunEvents,
    RunResult,
    ScriptedModel,
    TextDelta,
    ToolCall,
    ToolEnded,
    ToolProgress,
    ToolResult,
    Transcript,
)
from tests.support.hosts import Host


def name_of(action_id: str) -> str:
    return "contract" + action_id[0].upper() + action_id[1:]


def calling(*calls: tuple[str, Any], text: str = "") -> ModelReply:
    """Make a reply that calls actions of the contract provider, with the ids a, b, c and so on."""
    made = (ToolCall.of(name_of(action), value, id=chr(97 + at)) for at, (action, value) in enumerate(calls))
    return ModelReply(text, tuple(made))


Replies = Iterable[ModelReply | str | Exception] | Callable[[ModelRequest], ModelReply | str | Exception]


def agent_of(host: Host, replies: Replies, **options: Any) -> AgentRun:
    return AgentRun(ScriptedModel(replies), AgentTools(host.tools), **options)


def requests_of(run: AgentRun) -> list[ModelRequest]:
    """Return what the run's scripted model was asked."""
    model = run._model
    assert isinstance(model, ScriptedModel)
    return model.requests


async def told(events: RunEvents) -> list[AgentEvent]:
    """Go on to the end, and return every event but pieces of text, and what calls tell while they run."""
    return [event async for event in events if not isinstance(event, TextDelta | ToolProgress)]


def kinds(events: Iterable[AgentEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def results(events: Iterable[AgentEvent]) -> dict[str, ToolResult]:
    return {event.call.id: event.result for event in events if isinstance(event, ToolEnded)}


def result_of(run: AgentRun, call_id: str) -> ToolResult:
    (record,) = (call for call in run.transcript.calls if call.id == call_id)
    assert record.result is not None
    return record.result.value()


def assert_whole(transcript: Transcript) -> None:
    """Every call has its result, once, in what a model is told too."""
    calls = transcript.calls
    assert all(call.result is not None for call in calls)
    assert len({call.id for call in calls}) == len(calls)
    returned = [message.call_id for message in transcript.messages() if hasattr(message, "call_id")]
    assert returned == [call.id for call in calls]


def only(result: RunResult) -> str:
    """Return the id of the one interrupt that is pending."""
    (pending,) = result.pending
    return pending.interrupt_id
