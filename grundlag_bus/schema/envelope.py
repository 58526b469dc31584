"""The envelopes of the wire, as frozen values, and their JSON form.

Field names are snake_case here and camelCase in JSON; names inside a user's data are never changed. Instants are Unix
seconds here and RFC 3339 in UTC in JSON. Unknown fields are ignored, so that a rolling deploy tolerates newer peers;
another `v` is refused.

    call     { v, callId, generation, attempt, providerId, actionId, lane, userId?, sentAt, deadline, deferred?,
               request }
    request  { input, resumption?, items? }
    reply    { v, callId, generation, attempt, worker, response }
    response { status: completed | interrupted | failed, ... }
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.codec import canonical
from grundlag_bus.schema.items import Item
from grundlag_bus.schema.refusal import short

VERSION = 1

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


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

    generation: counts the times that it was sent on its way, attempt: those after an exception; deferred: the state
    that its last `Defer` kept; idempotent: whether its caller may send it again after an unsure publish; it does not
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
        data["expiresAt"] = instant_to_json(self.expires_at)
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
    return _digest("resumption", interrupt_id, canonical([answer, claims]))


def derived_interrupt_id(call_id: str, generation: int) -> str:
    """Make the id of the one interrupt that a generation of a call can end with."""
    return _digest("interrupt", call_id, str(generation).encode())


def _digest(kind: str, of: str, more: bytes) -> str:
    return hashlib.sha256(b"\0".join((kind.encode(), of.encode(), more))).hexdigest()[:32]


def instant_to_datetime(instant: float) -> datetime:
    """Turn Unix seconds into an aware datetime in UTC.

    What is outside the years 1 to 9999 becomes their beginning or end, and what is no number the beginning: as a
    deadline, it has passed.
    """
    return datetime.fromtimestamp(max(_EARLIEST, min(instant, _LATEST)), UTC)  # in this order, NaN is the lesser


def instant_to_json(instant: float) -> str:
    """Write Unix seconds as RFC 3339 in UTC, to the microsecond."""
    return instant_to_datetime(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_from_json(text: Any) -> float:
    """Read RFC 3339 as Unix seconds. Raises EnvelopeError, also where the offset is missing."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise EnvelopeError(f"{short(repr(text))} is no RFC 3339 time") from error
    if moment.tzinfo is None:
        raise EnvelopeError(f"the time {short(text)!r} has no offset")
    return moment.timestamp()


def encode_call(call: Call) -> bytes:
    data: dict[str, Any] = {
        "v": VERSION,
        "callId": call.call_id,
        "generation": call.generation,
        "attempt": call.attempt,
        "providerId": call.provider_id,
        "actionId": call.action_id,
        "lane": call.lane,
    }
    if call.user_id is not None:
        data["userId"] = call.user_id
    data["sentAt"] = instant_to_json(call.sent_at)
    data["deadline"] = instant_to_json(call.deadline)
    if call.deferred is not None:
        data["deferred"] = call.deferred
    data["request"] = call.request.to_json()
    return orjson.dumps(data)


def decode_call(body: bytes) -> Call:
    """Read a call envelope. Raises EnvelopeError with the reason."""
    data = _load(body)
    try:
        return Call(
            call_id=_text(data, "callId"),
            provider_id=_text(data, "providerId"),
            action_id=_text(data, "actionId"),
            request=request_from_json(data["request"]),
            deadline=_instant(data, "deadline"),
            lane=_text(data, "lane"),
            user_id=_optional_text(data, "userId"),
            sent_at=_instant(data, "sentAt"),
            generation=_count(data, "generation"),
            attempt=_count(data, "attempt"),
            deferred=data.get("deferred"),
        )
    except KeyError as error:
        raise EnvelopeError(f"the call envelope lacks {error.args[0]!r}") from error


def encode_reply(reply: Reply) -> bytes:
    return orjson.dumps(
        {
            "v": VERSION,
            "callId": reply.call_id,
            "generation": reply.generation,
            "attempt": reply.attempt,
            "worker": reply.worker,
            "response": reply.response.to_json(),
        }
    )


def decode_reply(body: bytes) -> Reply:
    """Read a reply envelope. Raises EnvelopeError with the reason."""
    data = _load(body)
    try:
        return Reply(
            call_id=_text(data, "callId"),
            response=response_from_json(data["response"]),
            worker=_text(data, "worker"),
            generation=_count(data, "generation"),
            attempt=_count(data, "attempt"),
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
                _text(told, "interruptId"), told["answer"], _text(told, "state"), _optional_text(told, "by")
            )
        except (KeyError, TypeError) as error:
            raise EnvelopeError("the resumption is no object with 'interruptId', 'answer' and 'state'") from error
    return Request(data["input"], resumption, _items(data.get("items")))


def response_from_json(data: Any) -> Response:
    """Read a response object. Raises EnvelopeError; a missing key raises KeyError for the reader of the envelope.

    Its items are checked here, where the call can still end with a sentence about them.
    """
    if type(data) is not dict:
        raise EnvelopeError("the response is no object")
    status, items = data.get("status"), _items(data.get("items"))
    for item in items:
        Item.from_json(item)
    if status == "completed":
        return Completed(data["result"], items)
    if status == "failed":
        return Failed(
            _text(data, "code"), _text(data, "message"), data.get("details"), data.get("retryable") is True, items
        )
    if status == "interrupted":
        return Interrupted(
            interrupt_id=_text(data, "interruptId"),
            message=_text(data, "message"),
            data=data.get("data"),
            state=_text(data, "state"),
            expires_at=_instant(data, "expiresAt"),
            answer_schema=_optional_object(data, "answerSchema"),
            items=items,
        )
    raise EnvelopeError(f"the response has the unknown status {short(repr(status))}")


def _load(body: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise EnvelopeError(f"the body is no JSON: {error}") from error
    if type(data) is not dict:
        raise EnvelopeError("the body is no JSON object")
    version = data.get("v")
    if type(version) is not int or version != VERSION:
        raise EnvelopeError(f"the envelope has version {short(repr(version))}, and this program reads {VERSION}")
    return data


def _text(data: dict[str, Any], name: str) -> str:
    value = data[name]
    if type(value) is not str:
        raise EnvelopeError(f"{name!r} is no text but of type {type(value).__name__}")
    return value


def _optional_text(data: dict[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _optional_object(data: dict[str, Any], name: str) -> dict[str, Any] | None:
    value = data.get(name)
    if value is not None and type(value) is not dict:
        raise EnvelopeError(f"{name!r} is no object")
    return value


def _count(data: dict[str, Any], name: str) -> int:
    value = data[name]
    if type(value) is not int or value < 1:
        raise EnvelopeError(f"{name!r} is no positive whole number")
    return value


def _instant(data: dict[str, Any], name: str) -> float:
    try:
        return instant_from_json(data[name])
    except EnvelopeError as error:
        raise EnvelopeError(f"{name!r}: {error.reason}") from error


def _items(value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    if type(value) is not list or not all(type(item) is dict for item in value):
        raise EnvelopeError("the items are no list of objects")
    return value
