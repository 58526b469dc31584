"""What happens to calls in a worker and at a caller, as frozen events. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A worker starts a call.

    queued: since it was sent; None where it waited for other reasons too: after a pause, or handed out before. lost:
    earlier starts that ended without a word.
    """

    provider_id: str
    action_id: str
    lane: str
    call_id: str
    generation: int
    attempt: int
    queued: float | None
    redelivered: bool
    lost: int


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A worker has the response.

    outcome: completed, interrupted or failed; code: of a failed one; ran: this start alone, None where there was none;
    total: since the call was first sent.
    """

    provider_id: str
    action_id: str
    lane: str
    call_id: str
    outcome: str
    code: str | None
    ran: float | None
    total: float


@dataclass(frozen=True, slots=True)
class CallSentOn:
    """A worker sends the next generation on its way. why: retry, defer, or absent (this worker lacks the action)."""

    provider_id: str
    action_id: str
    lane: str
    call_id: str
    why: str
    pause: float


@dataclass(frozen=True, slots=True)
class CallBuried:
    """A worker dead-letters a call. code: of the response that its caller gets."""

    provider_id: str
    action_id: str
    lane: str
    call_id: str
    code: str


@dataclass(frozen=True, slots=True)
class EnvelopeRefused:
    """A worker or a caller cannot read what it was given."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReplyLate:
    """A caller gets a reply that nothing waits for."""

    call_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class LoopTurned:
    """The event loop turned, as it does a few times a second when nothing happens. lag: how late it was."""

    lag: float


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """Something kept the event loop from turning. culprit: the action, or the place in the code, that did."""

    seconds: float
    culprit: str


@dataclass(frozen=True, slots=True)
class LedgerAnswered:
    """A ledger's database answered. seconds: until then, with the wait for others that were asked before."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LedgerAway:
    """A ledger's database has not served for so many seconds more."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LedgerNoted:
    """A ledger kept something from going wrong. what: one of `NOTES`."""

    what: str


NOTES = (
    "reply_sent_again",
    "copy_parked",
    "lease_lost",
    "lease_not_renewed",
    "fence_refused",
    "answer_conflict",
    "call_id_reused",
)
"""A call came again that had ended, or that another worker has and that goes on as a copy; another worker has taken a
lease over, or it could not be renewed in time; who had lost its lease wrote nothing; an interrupt had another answer,
or a call id another content."""

Event = (
    CallStarted
    | CallEnded
    | CallSentOn
    | CallBuried
    | EnvelopeRefused
    | ReplyLate
    | LoopTurned
    | LoopBlocked
    | LedgerAnswered
    | LedgerAway
    | LedgerNoted
)
