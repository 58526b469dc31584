"""What a transcript consists of: pydantic models of JSON data and nothing else.

    { kind: "prompt", text, at }
    { kind: "reply", text, calls: [call], usage, model, cut?, kept?, at, seconds }
    { kind: "item", item }
    call { id, name, arguments, providerId?, actionId?, startedAt?, seconds?, interrupts: [interrupt], result? }

A call holds its own result, so that it cannot have two. Unknown fields are ignored, and no class is loaded by name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from grundlag_bus.agent.events import PendingInterrupt
from grundlag_bus.agent.model import Cut, ModelReply, ToolCall, Usage
from grundlag_bus.agent.results import ToolResult
from grundlag_bus.agent.shorten import Shortened
from grundlag_bus.errors import Issue
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.items import Item

JsonData = Annotated[Any, BeforeValidator(plain)]


def now() -> datetime:
    return datetime.now(UTC)


class _Record(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        validate_assignment=True,
    )


class UsageRecord(_Record):
    input: int = 0
    output: int = 0
    cached: int = 0

    def value(self) -> Usage:
        return Usage(self.input, self.output, self.cached)


class ShortenedRecord(_Record):
    size: int
    limit: int
    left_out: tuple[str, ...] = ()


class ResultRecord(_Record):
    ok: bool
    summary: str
    data: JsonData = None
    shortened: ShortenedRecord | None = None

    @classmethod
    def of(cls, result: ToolResult) -> ResultRecord:
        cut = result.shortened
        shortened = None if cut is None else ShortenedRecord(size=cut.size, limit=cut.limit, left_out=cut.left_out)
        return cls(ok=result.ok, summary=result.summary, data=result.data, shortened=shortened)

    def value(self) -> ToolResult:
        cut = self.shortened
        shortened = None if cut is None else Shortened(cut.size, cut.limit, cut.left_out)
        return ToolResult(self.ok, self.summary, self.data, shortened)


class AnswerRecord(_Record):
    """rejected: the call is not to run, `value` is the reason then."""

    value: JsonData = None
    by: str | None = None
    rejected: bool = False
    at: AwareDatetime = Field(default_factory=now)


class IssueRecord(_Record):
    path: tuple[str | int, ...]
    code: str
    message: str


class InterruptRecord(_Record):
    """state: sealed, of an action. answer: None while it is pending."""

    interrupt_id: str
    message: str
    data: JsonData = None
    state: JsonData = None
    answer_schema: JsonData = None
    expires_at: AwareDatetime | None = None
    refused: tuple[IssueRecord, ...] = ()
    answer: AnswerRecord | None = None

    def value(self, call: ToolCall) -> PendingInterrupt:
        return PendingInterrupt(
            self.interrupt_id,
            call,
            self.message,
            self.data,
            self.answer_schema,
            self.expires_at,
            tuple(Issue(issue.path, issue.code, issue.message) for issue in self.refused),
        )


class CallRecord(_Record):
    """A call, and how it ended.

    started_at: None before its start, and again from an answer to the start with it; seconds: of its last start;
    edits: how often a person has put other arguments in the place of the model's.
    """

    id: str
    name: str
    arguments: str
    provider_id: str | None = None
    action_id: str | None = None
    started_at: AwareDatetime | None = None
    seconds: float | None = None
    interrupts: list[InterruptRecord] = []
    result: ResultRecord | None = None
    edits: int = 0

    @property
    def pending(self) -> InterruptRecord | None:
        """The interrupt that nobody answered yet."""
        last = self.interrupts[-1] if self.interrupts else None
        return None if last is None or last.answer is not None or self.result is not None else last

    @property
    def waits(self) -> bool:
        """Whether a person is, or was, asked before it goes on."""
        return self.result is None and bool(self.interrupts) and (self.pending is not None or self.started_at is None)

    def value(self) -> ToolCall:
        return ToolCall(self.id, self.name, self.arguments)


class PromptRecord(_Record):
    kind: Literal["prompt"] = "prompt"
    text: str
    at: AwareDatetime = Field(default_factory=now)


class ReplyRecord(_Record):
    kind: Literal["reply"] = "reply"
    text: str
    calls: list[CallRecord] = []
    usage: UsageRecord = Field(default_factory=UsageRecord)
    model: str
    cut: Cut | None = None
    kept: JsonData = None
    at: AwareDatetime = Field(default_factory=now)
    seconds: float = 0.0

    def value(self) -> ModelReply:
        calls = tuple(call.value() for call in self.calls)
        return ModelReply(self.text, calls, self.usage.value(), self.cut, self.kept)


class ItemRecord(_Record):
    kind: Literal["item"] = "item"
    item: Item

    @field_validator("item")
    @classmethod
    def _plain(cls, item: Item) -> Item:
        return item.model_copy(update={"data": plain(item.data)})


Record: TypeAlias = Annotated[PromptRecord | ReplyRecord | ItemRecord, Field(discriminator="kind")]
