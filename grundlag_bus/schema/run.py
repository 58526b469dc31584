"""What is told of a run: how it stands, what it asks, and what has happened in it.

`from_json` reads what an HTTP host writes by `to_json`, and raises EnvelopeError.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.fields import count, instant, instant_to_json, optional_object, optional_text, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["call", "script", "agent"]
Status = Literal["running", "waiting", "completed", "failed", "cancelled"]
InterruptStatus = Literal["pending", "answered", "rejected", "edited", "expired", "cancelled"]

KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = get_args(Status)
INTERRUPT_STATUSES: tuple[InterruptStatus, ...] = get_args(InterruptStatus)
ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, as it stood when it was looked at. Instants are Unix seconds.

    name: the function that it calls, or the first line of its script or prompt; status: `waiting` where nothing goes on
    before a person answers; value, stdout: of a completed one, of an agent the text of its last reply; error: of a
    failed or cancelled one, {code, message, details?}; spec: what it was started with; versions: what it was started
    under; retry_of: the run that it is another try of.
    """

    run_id: str
    kind: Kind
    name: str
    status: Status
    created_at: float
    changed_at: float
    user_id: str | None = None
    answerer: str | None = None
    ended_at: float | None = None
    value: Any = None
    stdout: str = ""
    error: Mapping[str, Any] | None = None
    spec: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] | None = None
    retry_of: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"runId": self.run_id, "kind": self.kind, "name": self.name, "status": self.status}
        optional = {"userId": self.user_id, "answerer": self.answerer, "retryOf": self.retry_of}
        told |= {name: value for name, value in optional.items() if value is not None}
        told |= {"createdAt": instant_to_json(self.created_at), "changedAt": instant_to_json(self.changed_at)}
        if self.ended_at is not None:
            told["endedAt"] = instant_to_json(self.ended_at)
        if self.status == "completed":
            told |= {"value": self.value, "stdout": self.stdout}
        if self.error is not None:
            told["error"] = dict(self.error)
        return told

    @classmethod
    def from_json(cls, data: Any) -> Run:
        """Read one; what it was started with, and under what, is not told."""
        with _reading(data, "run"):
            return cls(
                run_id=text(data, "runId"),
                kind=data["kind"],
                name=text(data, "name"),
                status=data["status"],
                created_at=instant(data, "createdAt"),
                changed_at=instant(data, "changedAt"),
                user_id=optional_text(data, "userId"),
                answerer=optional_text(data, "answerer"),
                ended_at=_optional_instant(data, "endedAt"),
                value=data.get("value"),
                stdout=optional_text(data, "stdout") or "",
                error=optional_object(data, "error"),
                retry_of=optional_text(data, "retryOf"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInterrupt:
    """A question of a run. answerer: who may answer, where that is not anybody; input: of the call that asks."""

    interrupt_id: str
    run_id: str
    function: str
    message: str
    data: Any
    input: Any
    answer_schema: dict[str, Any] | None
    status: InterruptStatus
    asked_at: float
    expires_at: float | None = None
    answerer: str | None = None
    answered_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "interruptId": self.interrupt_id,
            "runId": self.run_id,
            "function": self.function,
            "message": self.message,
            "data": self.data,
            "input": self.input,
            "status": self.status,
            "askedAt": instant_to_json(self.asked_at),
        }
        optional: dict[str, Any] = {
            "answerSchema": self.answer_schema,
            "expiresAt": None if self.expires_at is None else instant_to_json(self.expires_at),
            "answerer": self.answerer,
            "answeredBy": self.answered_by,
        }
        return told | {name: value for name, value in optional.items() if value is not None}

    @classmethod
    def from_json(cls, data: Any) -> OpenInterrupt:
        with _reading(data, "interrupt"):
            return cls(
                interrupt_id=text(data, "interruptId"),
                run_id=text(data, "runId"),
                function=text(data, "function"),
                message=text(data, "message"),
                data=data["data"],
                input=data["input"],
                answer_schema=optional_object(data, "answerSchema"),
                status=data["status"],
                asked_at=instant(data, "askedAt"),
                expires_at=_optional_instant(data, "expiresAt"),
                answerer=optional_text(data, "answerer"),
                answered_by=optional_text(data, "answeredBy"),
            )


@dataclass(frozen=True, slots=True)
class RunEntry:
    """An entry of a run's journal: what happened, as JSON data with its `kind`, and when.

    `run.started`, `run.ended` and, for calls by their number: `called`, `settled`, `answered`, `edited`, `delivered`.
    """

    position: int
    entry: Mapping[str, Any]
    written_at: float

    @property
    def kind(self) -> str:
        return str(self.entry["kind"])

    def to_json(self) -> dict[str, Any]:
        return {"position": self.position, "writtenAt": instant_to_json(self.written_at), **self.entry}

    @classmethod
    def from_json(cls, data: Any) -> RunEntry:
        with _reading(data, "entry"):
            entry = {name: value for name, value in data.items() if name not in {"position", "writtenAt"}}
            text(entry, "kind")
            return cls(count(data, "position"), entry, instant(data, "writtenAt"))


@contextmanager
def _reading(data: Any, what: str) -> Iterator[None]:
    """Read something of a run: what is missing, or no object, is said by an EnvelopeError."""
    if type(data) is not dict:
        raise EnvelopeError(f"the {what} is no object")
    try:
        yield
    except KeyError as error:
        raise EnvelopeError(f"the {what} lacks {error.args[0]!r}") from error


def _optional_instant(data: dict[str, Any], name: str) -> float | None:
    return None if data.get(name) is None else instant(data, name)
