"""What a delivery means by what is recorded of its call: decided here, in a pure function.

    record                   delivery                          -> verdict
    none                     any                               -> Take, for the first time
    of another content       any                               -> Reused
    dead                     of a newer generation             -> Take, for the first time: it was redriven
    ended, dead              any                               -> Recorded
    leased, alive elsewhere  of an older generation, known     -> Behind, nothing to publish
    leased, alive elsewhere  else                              -> Held, until the lease ends
    leased, dead             of an older generation            -> Behind
    leased, dead             else                              -> Take, one more lost
    leased by this worker    any (it does not run it any more) -> as dead, and nothing lost
    handing                  of an older generation            -> Behind, to be published
    waiting, free            of an older generation            -> Behind, to be published for whom it was not
    handing, waiting, free   else                              -> Take

A delivery is known when everybody who waits for its reply is in the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Record:
    """A row of the ledger, and the time at which it was read."""

    digest: str
    phase: str
    generation: int
    fence: int
    owner: str | None
    lease_until: float | None
    lost: int
    alone_at: int | None
    mailboxes: tuple[str, ...]
    next_call: bytes | None
    due_at: float | None
    reply: bytes | None
    letter: bytes | None
    now: float


@dataclass(frozen=True, slots=True)
class Take:
    """Start it. lost: how many starts of this generation ended without a word, this delivery's cause among them."""

    lost: int = 0
    alone_at: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """It has ended: send this reply. letter: a dead letter to publish before."""

    reply: bytes
    letter: bytes | None


@dataclass(frozen=True, slots=True)
class Held:
    """Another worker has it, for so many seconds more unless it says otherwise."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Behind:
    """There is a newer generation. It is to be published to these, after so many seconds (empty: to nobody)."""

    fence: int
    next_call: bytes
    seconds: float
    mailboxes: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Reused:
    """Another call has this id."""


Verdict = Take | Recorded | Held | Behind | Reused


def judge(record: Record, *, digest: str, generation: int, mailboxes: Sequence[str], owner: str) -> Verdict:
    """Say what is to be done with a delivery of a call that is recorded. owner: the worker that has it."""
    if record.digest != digest:
        return Reused()
    if record.phase == "dead" and generation > record.generation:
        return Take()
    if record.reply is not None:
        return Recorded(record.reply, record.letter)
    unknown = tuple(mailbox for mailbox in mailboxes if mailbox not in record.mailboxes)
    older = generation < record.generation and record.next_call is not None
    leased = record.phase == "leased" and record.owner != owner
    left = (record.lease_until or record.now) - record.now
    if leased and left > 0 and (unknown or not older):
        return Held(left)
    if older and record.next_call is not None:
        everybody: tuple[str | None, ...] = record.mailboxes or (None,)
        to = (*everybody, *unknown) if record.phase == "handing" else unknown
        seconds = max((record.due_at or record.now) - record.now, 0.0)
        return Behind(record.fence, record.next_call, seconds, to)
    return Take(record.lost + 1 if leased else record.lost, record.alone_at)
