"""What a delivery means by what is recorded of its call: decided here, in a pure function.

    record                   delivery                          -> verdict
    none                     any                               -> Take, for the first time
    of another content       any                               -> Reused
    dead                     of a newer generation             -> Take, for the first time: it was redriven
    ended, dead              any                               -> Recorded
    leased, alive elsewhere  of an older generation, known     -> Behind, nothing to publish
    leased, alive elsewhere  no copy, or not the one on record -> Watched, where it is settled early
    leased, alive elsewhere  else                              -> Held, until the lease ends
    leased, dead             of an older generation            -> Behind
    leased, dead             else                              -> Take, one more lost
    leased by this worker    any, and it runs it               -> as alive elsewhere
    leased by this worker    any, and it does not any more     -> as dead, and nothing lost
    handing                  of an older generation            -> Behind, to be published
    waiting, free            of an older generation            -> Behind, to be published for whom it was not
    handing, waiting, free   else                              -> Take

A delivery is known when everybody who waits for its reply is in the record. Where calls are settled early, everybody
is: the record says who waits, and no delivery has to.

A copy that is on record is on the broker, or in somebody's hand who has not let another one take its place yet. So one
copy goes around for each call: what is not on record looks after nothing, and ends here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


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
    copy: str | None
    checkpoint: bytes | None
    now: float


@dataclass(frozen=True, slots=True)
class Take:
    """Start it. lost: how many starts of this generation ended without a word, this delivery's cause among them."""

    lost: int = 0
    alone_at: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """It has ended: send this reply. letter: a dead letter to publish before; mailboxes: who may not have it yet."""

    reply: bytes
    letter: bytes | None
    mailboxes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """Another worker has it, for so many seconds more unless it says otherwise.

    copy: what looks after it and is to be replaced, where calls are settled early; None: nothing does yet.
    """

    seconds: float
    copy: str | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """Another worker has it, and a watch copy looks after it: there is nothing to do."""


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


LATE = 1.0
"""Seconds that a lease is given at least while its own worker asks: it is about to renew it, or to be stopped."""

Verdict = Take | Recorded | Held | Watched | Behind | Reused


def judge(  # noqa: PLR0913  what a delivery is
    record: Record,
    *,
    digest: str,
    generation: int,
    mailboxes: Sequence[str],
    owner: str,
    running: bool = False,
    early: bool = False,
    copies: Collection[str] = (),
) -> Verdict:
    """Say what is to be done with a delivery of a call that is recorded.

    owner: the worker that has it; running: whether it runs the call; early: whether such calls are settled early;
    copies: the watch copies that are settled with the delivery, if it is one or has such beside it.
    """
    if record.digest != digest:
        return Reused()
    if record.phase == "dead" and generation > record.generation:
        return Take()
    if record.reply is not None:
        return Recorded(record.reply, record.letter, record.mailboxes if early else ())
    unknown = () if early else tuple(mailbox for mailbox in mailboxes if mailbox not in record.mailboxes)
    older = generation < record.generation and record.next_call is not None
    leased = record.phase == "leased" and (running or record.owner != owner)
    left = (record.lease_until or record.now) - record.now
    if running and record.owner == owner:
        left = max(left, LATE)
    if leased and left > 0 and (unknown or not older):
        watched = early and record.copy is not None and record.copy not in copies
        return Watched() if watched else Held(left, record.copy)
    if older and record.next_call is not None:
        everybody: tuple[str | None, ...] = record.mailboxes or (None,)
        to = (*everybody, *unknown) if record.phase == "handing" else unknown
        seconds = max((record.due_at or record.now) - record.now, 0.0)
        return Behind(record.fence, record.next_call, seconds, to)
    return Take(record.lost + 1 if leased else record.lost, record.alone_at)
