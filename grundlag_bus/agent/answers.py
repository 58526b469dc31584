"""Answers to what a run asks: each is checked before any of them counts, and counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.agent.events import AgentEvent, Rejection, ToolEnded
from grundlag_bus.agent.records import AnswerRecord
from grundlag_bus.errors import AnswerInvalidError, InterruptUnknownError, NotJsonError, RunStateError
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.json_schema import JsonValidator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.agent.records import CallRecord, InterruptRecord
    from grundlag_bus.agent.transcript import Transcript


def accept(transcript: Transcript, answers: Mapping[str, Any], *, by: str | None) -> list[AgentEvent]:
    """Write down answers and rejections, and return the events of calls that ended thereby.

    Raises InterruptUnknownError, AnswerInvalidError and RunStateError: then nothing is written down.
    """
    pending = {interrupt.interrupt_id: (call, interrupt) for call, interrupt in transcript.pending}
    if not answers:
        raise RunStateError("There is no answer to go on with: give one for some of run.pending.")
    if foreign := [interrupt_id for interrupt_id in answers if interrupt_id not in pending]:
        raise InterruptUnknownError(foreign, pending)
    checked = [
        (call, _checked(call, interrupt, answers[name], by))
        for name, (call, interrupt) in pending.items()
        if name in answers
    ]
    turn, events = len(transcript.replies), list[AgentEvent]()
    for call, answer in checked:
        if answer.rejected:
            result = transcript.reject(call, answer)
            events.append(ToolEnded(turn, call.value(), result, answer.at.timestamp(), 0.0))
        else:
            transcript.answer(call, answer)
    return events


def _checked(call: CallRecord, interrupt: InterruptRecord, answer: Any, by: str | None) -> AnswerRecord:
    try:
        if isinstance(answer, Rejection):
            reason, who = plain((answer.reason, answer.by or by))
            return AnswerRecord(value=reason, by=who, rejected=True)
        value, who = plain(answer), plain(by)
    except NotJsonError as error:
        raise AnswerInvalidError(call.name, [error.issue]) from error
    schema = interrupt.answer_schema
    if schema is not None and (issues := JsonValidator(schema).issues(value)):
        raise AnswerInvalidError(call.name, issues)
    return AnswerRecord(value=value, by=who)
