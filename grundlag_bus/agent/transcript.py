"""The transcript: all that was said and called, with every call and its result exactly once. A run's only memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from grundlag_bus.agent.items import TranscriptItems
from grundlag_bus.agent.model import Message, Prompt, Replied, Returned, ToolCall, Usage, callable_name
from grundlag_bus.agent.records import (
    AnswerRecord,
    CallRecord,
    InterruptRecord,
    IssueRecord,
    ItemRecord,
    PromptRecord,
    Record,
    ReplyRecord,
    ResultRecord,
    UsageRecord,
    now,
)
from grundlag_bus.agent.results import failed
from grundlag_bus.errors import RunStateError, TranscriptError
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grundlag_bus.agent.model import ModelReply, ToolDescription
    from grundlag_bus.agent.results import ToolResult
    from grundlag_bus.errors import Issue, ToolInterrupt


class _Document(BaseModel):
    """A transcript as JSON."""

    records: list[Record]


class Transcript:
    """Prompts, replies with their calls, and items, oldest first.

    It changes by the methods here alone; each of them leaves it whole.
    """

    def __init__(self) -> None:
        self._records: list[Record] = []
        self.items = TranscriptItems(self._records)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(self._records)

    @property
    def replies(self) -> list[ReplyRecord]:
        return [record for record in self._records if isinstance(record, ReplyRecord)]

    @property
    def calls(self) -> list[CallRecord]:
        return [call for reply in self.replies for call in reply.calls]

    @property
    def open_calls(self) -> list[CallRecord]:
        """Calls without a result, in order. Between two turns there are none."""
        replies = self.replies
        return [call for call in replies[-1].calls if call.result is None] if replies else []

    @property
    def pending(self) -> list[tuple[CallRecord, InterruptRecord]]:
        """Interrupts that wait for an answer, in the order of their calls."""
        return [(call, call.pending) for call in self.open_calls if call.pending is not None]

    @property
    def is_answered(self) -> bool:
        """Whether the newest of prompts and replies is a reply that calls nothing."""
        last = next((record for record in reversed(self._records) if not isinstance(record, ItemRecord)), None)
        return isinstance(last, ReplyRecord) and not last.calls

    @property
    def turns_since_prompt(self) -> int:
        turns = 0
        for record in self._records:
            turns = 0 if isinstance(record, PromptRecord) else turns + isinstance(record, ReplyRecord)
        return turns

    @property
    def usage(self) -> Usage:
        return sum((reply.usage.value() for reply in self.replies), Usage())

    def messages(self) -> tuple[Message, ...]:
        """Tell a model all of it: what each call gave follows its reply, in the order of the calls."""
        told: list[Message] = []
        for record in self._records:
            if isinstance(record, PromptRecord):
                told.append(Prompt(record.text))
            elif isinstance(record, ReplyRecord):
                told.append(Replied(record.text, tuple(_callable(call.value()) for call in record.calls), record.kept))
                told += [_returned(call) for call in record.calls if call.result is not None]
        return tuple(told)

    # --- writing ------------------------------------------------------------------------------------------------------

    def add_prompt(self, text: str) -> None:
        """Write down what was said. Raises RunStateError while calls are open, NotJsonError for what is no Unicode."""
        if self.open_calls:
            raise RunStateError("The last reply has calls without a result: answer or reject what is pending first.")
        self._records.append(PromptRecord(text=plain(text, at=("prompt",))))

    def add_reply(
        self, reply: ModelReply, *, model: str, tools: Iterable[ToolDescription] = (), seconds: float = 0.0
    ) -> ReplyRecord:
        """Write down a reply; a call whose id is missing or known already gets one of its own. Raises NotJsonError."""
        known = {call.id for call in self.calls}
        origin = {tool.name: tool for tool in tools}
        calls = []
        for wanted in reply.calls:
            call_id, name, arguments = plain((wanted.id, wanted.name, wanted.arguments), at=("calls",))
            tool = origin.get(name)
            calls.append(
                CallRecord(
                    id=_fresh(call_id or f"call_{len(known) + 1}", known),
                    name=name,
                    arguments=arguments,
                    provider_id=None if tool is None else tool.provider_id,
                    action_id=None if tool is None else tool.action_id,
                )
            )
        usage = UsageRecord(input=reply.usage.input, output=reply.usage.output, cached=reply.usage.cached)
        text, kept = plain((reply.text, reply.kept), at=("reply",))
        record = ReplyRecord(
            text=text, calls=calls, usage=usage, model=model, cut=reply.cut, kept=kept, seconds=seconds
        )
        self._records.append(record)
        return record

    def start(self, call: CallRecord) -> None:
        """Write down that a call starts: from here on it may have had effects."""
        call.started_at = now()

    def take_back(self, call: CallRecord) -> None:
        """Write down that a call did not start after all."""
        call.started_at = None

    def end(self, call: CallRecord, result: ToolResult, *, seconds: float = 0.0) -> None:
        """Write down a call's result. Raises RunStateError for a second one, NotJsonError for what is no JSON data."""
        if call.result is not None:
            raise RunStateError(f"The call {call.id} has its result already.")
        plain(result.summary, at=("summary",))
        plain(result.data, at=("result",))
        call.result, call.seconds = ResultRecord.of(result), seconds

    def interrupt(self, call: CallRecord, raised: ToolInterrupt) -> InterruptRecord:
        """Write down what a call asks. Raises NotJsonError when it is no JSON data."""
        told = (raised.message, raised.data, raised.state, raised.answer_schema, raised.interrupt_id)
        message, data, state, schema, interrupt_id = plain(told, at=("interrupt",))
        known = {interrupt.interrupt_id for other in self.calls for interrupt in other.interrupts}
        record = InterruptRecord(
            interrupt_id=_fresh(interrupt_id or f"{call.id}.interrupt", known),
            message=message,
            data=data,
            state=state,
            answer_schema=schema,
            expires_at=raised.expires_at,
        )
        call.interrupts.append(record)
        return record

    def answer(self, call: CallRecord, answer: AnswerRecord) -> None:
        """Write down the answer to a call's pending interrupt, which consumes it: the call is to be started anew."""
        interrupt = call.pending
        if interrupt is None:
            raise RunStateError(f"The call {call.id} waits for no answer.")
        interrupt.answer, call.started_at = answer, None

    def reject(self, call: CallRecord, rejection: AnswerRecord) -> ToolResult:
        """Write down, in place of an answer, that a call is not to run; return the result that it gets."""
        self.answer(call, rejection)
        told = "" if rejection.value is None else f" The reason: {rejection.value}"
        result = failed("rejected", f"A person rejected this call, so it did not run.{told}")
        self.end(call, result)
        return result

    def refuse_answer(self, interrupt: InterruptRecord, issues: Sequence[Issue]) -> None:
        """Write down that an action refused the answer: the interrupt is pending as before."""
        interrupt.answer = None
        interrupt.refused = tuple(IssueRecord(path=i.path, code=i.code, message=i.message) for i in issues)

    def close_calls(self, what: str) -> None:
        """Give every open call a result which says that it was cancelled, and why: `what` begins the sentence."""
        for call in self.open_calls:
            if call.pending is not None:
                how = "before its question was answered"
            elif call.started_at is not None:
                how = "while the call ran: it may have had effects"
            else:
                how = "before the call started"
            self.end(call, failed("cancelled", f"{what} {how}."))

    # --- as data ------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {"records": [record.model_dump(mode="json", by_alias=True) for record in self._records]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, open_calls: bool = False) -> Transcript:
        """Read a transcript, and give calls that were under way when it was written a result that says so.

        Calls that wait for an answer stay open, and those that have it and did not start; so do the calls after them.
        open_calls: so do all others, for one who makes them again as the same calls. Raises TranscriptError.
        """
        try:
            read = _Document.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "its root"
            raise TranscriptError(f"The transcript is malformed at {place}: {short(first['msg'])}") from error
        transcript = cls()
        transcript._records.extend(read.records)
        if not open_calls:
            transcript._repair()
        return transcript

    def _repair(self) -> None:
        last = self.replies[-1:]
        for reply in self.replies:
            waits = reply in last and any(call.waits for call in reply.calls)
            for call in reply.calls:
                if call.result is not None:
                    continue
                if call.started_at is not None and call.pending is None:
                    self.end(call, _OUTCOME_UNKNOWN)
                elif not waits:
                    self.end(call, _NEVER_RAN)


_NEVER_RAN = failed("cancelled", "The process that held this run ended before the call ran.")
_OUTCOME_UNKNOWN = failed(
    "outcome_unknown",
    "The process that held this run ended while the call ran: it may have had effects, so look before calling again.",
)


def _fresh(wanted: str, known: set[str]) -> str:
    """Give an id that nothing else has, and remember it."""
    name, number = wanted, 1
    while name in known:
        number += 1
        name = f"{wanted}_{number}"
    known.add(name)
    return name


def _callable(call: ToolCall) -> ToolCall:
    """Give back a name that a model made up in a form that its vendor takes."""
    return ToolCall(call.id, callable_name(call.name), call.arguments)


def _returned(call: CallRecord) -> Returned:
    assert call.result is not None  # noqa: S101  the caller has looked
    result = call.result.value()
    return Returned(call.id, callable_name(call.name), result.text, result.ok)
