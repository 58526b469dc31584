"""The envelopes of the wire, as frozen values, and their JSON form.

Field names are snake_case here and camelCase in JSON; names inside a user's data are never changed. Instants are Unix
seconds here and RFC 3339 in UTC in JSON. Unknown fields are ignored, so that a rolling deploy tolerates newer peers;
another `v` is refused.

    call     { v, callId, generation, attempt, providerId, actionId, lane, userId?, sentAt, deadline, deferred?,
               watched?, trace?, copy?, request }
    request  { input, resumption?, items? }
    trace    { traceparent, tracestate? }
    reply    { v, callId, generation, attempt, worker, response }
    response { status: completed | interrupted | failed, ... }
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema import fields
from grundlag_bus.schema.codec import canonical
from grundlag_bus.schema.items import Item
from grundlag_bus.schema.refusal import short
from grundlag_bus.schema.trace import Trace


@dataclass(frozen=True, slots=True)
class Resumption:
    """The answer to an interrupt, with the sealed state that the interrupted response carried."""

    interrupt_id: str
    answer: Any
    state: str
    by: str | None = None

    def to_json(self) -> dict[str, Any]:
        data = {"interruptId": self.interrupt_id, "answer": self.answer, "state": self.state}
        if self.by is not None:
            data["by"] = self.by
        return data


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller sends of its own: plain JSON data throughout."""

    input: Any
    resumption: Resumption | None = None
    items: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"input": self.input}
        if self.resumption is not None:
            data["resumption"] = self.resumption.to_json()
        if self.items:
            data["items"] = self.items
        return data


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an action. `deadline` and `sent_at` are Unix seconds.

    sent_at: when it was sent, or is due where it was delayed; generation: counts the times that it was sent on its
    way, attempt: those after an exception; deferred: the state that its last `Defer` kept; watched: whether its caller
    wants to hear of its progress; trace: where it belongs; copy: what tells this one from others that look after it,
    where it is a watch copy; idempotent: whether its caller may send it again after an unsure publish, which does not
    travel.
    """

    call_id: str
    provider_id: str
    action_id: str
    request: Request
    deadline: float
    lane: str = "main"
    user_id: str | None = None
    sent_at: float = 0.0
    generation: int = 1
    attempt: int = 1
    deferred: Any = None
    watched: bool = False
    trace: Trace | None = None
    copy: str | None = None
    idempotent: bool = False

    def asks_the_same_as(self, other: Call) -> bool:
        """Whether another call, of the same id, is this one: the same action, asked the same by the same user."""
        ours = (self.provider_id, self.action_id, self.user_id, self.request)
        return ours == (other.provider_id, other.action_id, other.user_id, other.request)


@dataclass(frozen=True, slots=True)
class Completed:
    result: Any
    items: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"status": "completed", "result": self.result, "items": self.items}


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A person must answer. `state` is sealed; `expires_at` is Unix seconds."""

    interrupt_id: str
    message: str
    data: Any
    state: str
    expires_at: float
    answer_schema: dict[str, Any] | None = None
    items: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data = {
            "status": "interrupted",
            "interruptId": self.interrupt_id,
            "message": self.message,
            "data": self.data,
            "state": self.state,
            "items": self.items,
        }
        if self.answer_schema is not None:
            data["answerSchema"] = self.answer_schema
        data["expiresAt"] = fields.instant_to_json(self.expires_at)
        return data


@dataclass(frozen=True, slots=True)
class Failed:
    code: str
    message: str
    details: Any = None
    retryable: bool = False
    items: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"status": "failed", "code": self.code, "message": self.message}
        if self.details is not None:
            data["details"] = self.details
        data["retryable"] = self.retryable
        data["items"] = self.items
        return data


Response = Completed | Interrupted | Failed


@dataclass(frozen=True, slots=True)
class Reply:
    """How a call ended, and who says so."""

    call_id: str
    response: Response
    worker: str
    generation: int = 1
    attempt: int = 1


def new_call_id() -> str:
    """Make a call id: 128 random bits, as 32 hexadecimal digits."""
    return os.urandom(16).hex()


def derived_call_id(interrupt_id: str, answer: Any, claims: Any) -> str:
    """Make the call id of a resumption: the same for the same interrupt, answer and claims, so that it is one call.

    The interrupt id is itself derived from the interrupted call's. claims: what the seal is checked against (the sealed
    state, the input, the user), so that whoever claims something else shares no reply.
    """
    return derived_id("resumption", interrupt_id, canonical([answer, claims]))


def derived_interrupt_id(call_id: str, generation: int) -> str:
    """Make the id of the one interrupt that a generation of a call can end with."""
    return derived_id("interrupt", call_id, str(generation).encode())


def derived_id(kind: str, of: str, more: bytes) -> str:
    """Make an id of a kind of thing from the id of what it belongs to and what else tells it apart."""
    return hashlib.sha256(b"\0".join((kind.encode(), of.encode(), more))).hexdigest()[:32]


def encode_call(call: Call) -> bytes:
    data: dict[str, Any] = {
        "v": fields.VERSION,
        "callId": call.call_id,
        "generation": call.generation,
        "attempt": call.attempt,
        "providerId": call.provider_id,
        "actionId": call.action_id,
        "lane": call.lane,
    }
    if call.user_id is not None:
        data["userId"] = call.user_id
    data["sentAt"] = fields.instant_to_json(call.sent_at)
    data["deadline"] = fields.instant_to_json(call.deadline)
    if call.deferred is not None:
        data["deferred"] = call.deferred
    if call.watched:
        data["watched"] = True
    if call.trace is not None:
        data["trace"] = call.trace.to_json()
    if call.copy is not None:
        data["copy"] = call.copy
    data["request"] = call.request.to_json()
    return orjson.dumps(data)


def decode_call(body: bytes) -> Call:
    """Read a call envelope. Raises EnvelopeError with the reason."""
    data = fields.load(body)
    try:
        return Call(
            call_id=fields.call_id(data),
            provider_id=fields.text(data, "providerId"),
            action_id=fields.text(data, "actionId"),
            request=request_from_json(data["request"]),
            deadline=fields.instant(data, "deadline"),
            lane=fields.text(data, "lane"),
            user_id=fields.optional_text(data, "userId"),
            sent_at=fields.instant(data, "sentAt"),
            generation=fields.count(data, "generation"),
            attempt=fields.count(data, "attempt"),
            deferred=data.get("deferred"),
            watched=data.get("watched") is True,
            trace=Trace.from_json(data["trace"]) if "trace" in data else None,
            copy=fields.optional_text(data, "copy"),
        )
    except KeyError as error:
        raise EnvelopeError(f"the call envelope lacks {error.args[0]!r}") from error


def encode_reply(reply: Reply) -> bytes:
    return orjson.dumps(
        {
            "v": fields.VERSION,
            "callId": reply.call_id,
            "generation": reply.generation,
            "attempt": reply.attempt,
            "worker": reply.worker,
            "response": reply.response.to_json(),
        }
    )


def decode_reply(body: bytes) -> Reply:
    """Read a reply envelope. Raises EnvelopeError with the reason."""
    data = fields.load(body)
    try:
        return Reply(
            call_id=fields.text(data, "callId"),
            response=response_from_json(data["response"]),
            worker=fields.text(data, "worker"),
            generation=fields.count(data, "generation"),
            attempt=fields.count(data, "attempt"),
        )
    except KeyError as error:
        raise EnvelopeError(f"the reply envelope lacks {error.args[0]!r}") from error


def request_from_json(data: Any) -> Request:
    """Read a request object. Raises EnvelopeError."""
    if type(data) is not dict or "input" not in data:
        raise EnvelopeError("the request is no object with an 'input'")
    told = data.get("resumption")
    resumption = None
    if told is not None:
        try:
            resumption = Resumption(
                fields.text(told, "interruptId"),
                told["answer"],
                fields.text(told, "state"),
                fields.optional_text(told, "by"),
            )
        except (KeyError, TypeError) as error:
            raise EnvelopeError("the resumption is no object with 'interruptId', 'answer' and 'state'") from error
    return Request(data["input"], resumption, fields.objects(data.get("items")))


def response_from_json(data: Any) -> Response:
    """Read a response object. Raises EnvelopeError; a missing key raises KeyError for the reader of the envelope.

    Its items are checked here, where the call can still end with a sentence about them.
    """
    if type(data) is not dict:
        raise EnvelopeError("the response is no object")
    status, items = data.get("status"), fields.objects(data.get("items"))
    for item in items:
        Item.from_json(item)
    if status == "completed":
        return Completed(data["result"], items)
    if status == "failed":
        return Failed(
            fields.text(data, "code"),
            fields.text(data, "message"),
            data.get("details"),
            data.get("retryable") is True,
            items,
        )
    if status == "interrupted":
        return Interrupted(
            interrupt_id=fields.text(data, "interruptId"),
            message=fields.text(data, "message"),
            data=data.get("data"),
            state=fields.text(data, "state"),
            expires_at=fields.instant(data, "expiresAt"),
            answer_schema=fields.optional_object(data, "answerSchema"),
            items=items,
        )
    raise EnvelopeError(f"the response has the unknown status {short(repr(status))}")
