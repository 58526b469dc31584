"""What is told of a run: how it stands, what it asks, and what has happened in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grundlag_bus.schema.fields import instant_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["call", "script", "agent"]
Status = Literal["running", "waiting", "completed", "failed", "cancelled"]
InterruptStatus = Literal["pending", "answered", "rejected", "edited", "expired", "cancelled"]

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
