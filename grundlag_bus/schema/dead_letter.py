"""A dead letter: a call that could not be done, with the reason, as it waits in the dead queue.

    { v, diedAt, worker, reason: { code, message, details? }, call: <the call envelope> }

What the broker itself dead-letters (an envelope that a worker refused to read, say) has no such cover: it is the
message as it was published, with a note of the broker's. Its code is one of

    envelope_refused        the envelope cannot be read, or came through another provider's queue
    refused                 a worker refused the call: its log says why
    delivery_limit          the broker handed it out as often as it may be
    provider_unavailable    it came out of the delay ladder, and no queue took it
    evicted                 a limit of its queue, set by a policy, moved it out
    unexplained             nobody says why
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema import fields
from grundlag_bus.schema.envelope import Call, Failed, decode_call, encode_call

_LONGEST_ID = 64


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What a worker writes. died_at: Unix seconds."""

    response: Failed
    worker: str
    died_at: float
    call: Call

    def encode(self) -> bytes:
        reason: dict[str, Any] = {"code": self.response.code, "message": self.response.message}
        if self.response.details is not None:
            reason["details"] = self.response.details
        return orjson.dumps(
            {
                "v": fields.VERSION,
                "diedAt": fields.instant_to_json(self.died_at),
                "worker": self.worker,
                "reason": reason,
                "call": orjson.Fragment(encode_call(self.call)),
            }
        )


@dataclass(frozen=True, slots=True)
class Death:
    """What a broker notes on a message that it dead-letters by itself.

    reason: `rejected`, `expired`, `maxlen` or `delivery_limit`; queue: where it was; at: Unix seconds.
    """

    reason: str
    queue: str
    at: float


@dataclass(frozen=True, slots=True)
class Reason:
    code: str
    message: str
    details: Any = None

    def to_json(self) -> dict[str, Any]:
        told = {"code": self.code, "message": self.message}
        return told if self.details is None else {**told, "details": self.details}


@dataclass(frozen=True, slots=True)
class Letter:
    """What an operator reads. `call` is None where it cannot be read; `body` is all that there is then.

    id: the call's, or a digest of the body where there is none; died_at: Unix seconds, None where nobody knows.
    """

    id: str
    reason: Reason
    call: Call | None
    body: bytes = field(repr=False)
    died_at: float | None = None
    worker: str | None = None

    @property
    def starts(self) -> int | None:
        """How often the call was started, as far as the letter tells."""
        details = self.reason.details
        told = details.get("starts") if isinstance(details, dict) else None
        if isinstance(told, int):
            return told
        return None if self.call is None else self.call.attempt

    @property
    def can_be_redriven(self) -> bool:
        """Whether a worker may take the call another time: what was refused by its envelope would be again."""
        return self.call is not None and self.reason.code != "envelope_refused"

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self.id}
        if self.died_at is not None:
            told["diedAt"] = fields.instant_to_json(self.died_at)
        if self.worker is not None:
            told["worker"] = self.worker
        told["reason"] = self.reason.to_json()
        if self.call is not None:
            told["call"] = orjson.loads(encode_call(self.call))
        else:
            told["body"] = self.body.decode(errors="backslashreplace")
        return told


def read_dead_letter(body: bytes, death: Death | None = None) -> Letter:
    """Read whatever the dead queue holds; death: the broker's note, where it has one.

    What came from a call queue has such a note and no cover, whatever it looks like: who may only write to one
    provider's queue must not reach another's by having a made-up letter redriven.
    """
    data = _loaded(body)
    if death is not None or not isinstance(data.get("reason"), dict) or "call" not in data:
        return _read_bare(body, data, death)
    try:
        call = decode_call(orjson.dumps(data["call"]))
    except EnvelopeError:
        call = None
    told = data["reason"]
    reason = Reason(str(told.get("code", "unexplained")), str(told.get("message", "")), told.get("details"))
    worker = data.get("worker")
    return Letter(
        _id_of(data["call"], call, body),
        reason,
        call,
        body,
        _died_at(data.get("diedAt")),
        worker if isinstance(worker, str) else None,
    )


def _read_bare(body: bytes, data: dict[str, Any], death: Death | None) -> Letter:
    call, fault = None, None
    try:
        call = decode_call(body)
    except EnvelopeError as error:
        fault = error.reason
    return Letter(
        _id_of(data, call, body), _explained(death, call, fault), call, body, None if death is None else death.at
    )


def _explained(death: Death | None, call: Call | None, fault: str | None) -> Reason:
    """Say why the broker dead-lettered a message, as far as its note and the message itself tell."""
    if death is None:
        told = "It was published here without a reason."
        return Reason("unexplained", told if fault is None else f"{told} The envelope cannot be read: {fault}.")
    details = {"reason": death.reason, "queue": death.queue}
    if call is None:
        return Reason("envelope_refused", f"The envelope cannot be read: {fault}.", details)
    place = f"{call.provider_id}.{call.lane}"
    delayed = ".delay." in death.queue
    if not delayed and not death.queue.endswith(f".calls.{place}"):
        # Who may publish to a queue is the broker's permission: an envelope must not lead past it, now or redriven.
        return Reason("envelope_refused", f"The envelope names {place} and came through {death.queue}.", details)
    if delayed and death.reason == "expired":
        told = f"When it was due, no queue took it for {place}: start a worker of it once, then redrive."
        return Reason("provider_unavailable", told, details)
    code, told = _BROKERS_REASONS.get(death.reason, _BROKERS_REASONS["maxlen"])
    return Reason(code, told.format(queue=death.queue, reason=death.reason), details)


_BROKERS_REASONS = {
    "rejected": ("refused", "A worker refused it: its log says why, under the call's id."),
    "delivery_limit": (
        "delivery_limit",
        "The broker handed it out as often as {queue} allows, and each time its worker was lost.",
    ),
    "maxlen": ("evicted", "A limit of {queue} ({reason}) moved it out: take the policy back that sets it."),
}


def _loaded(body: bytes) -> dict[str, Any]:
    try:
        data = fields.read(body)
    except EnvelopeError:
        return {}
    return data if isinstance(data, dict) else {}


def _id_of(data: Any, call: Call | None, body: bytes) -> str:
    """Take the call's id, also of an envelope that cannot be read otherwise, unless nobody could type it."""
    told = call.call_id if call is not None else data.get("callId") if isinstance(data, dict) else None
    if isinstance(told, str) and 0 < len(told) <= _LONGEST_ID and told.isprintable() and " " not in told:
        return told
    return hashlib.sha256(body).hexdigest()[:32]


def _died_at(told: Any) -> float | None:
    try:
        return fields.instant_from_json(told)
    except EnvelopeError:
        return None
