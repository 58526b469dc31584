"""What becomes of a call: decided here, in pure functions, and carried out by whoever holds it.

Of a call whose action its worker lacks:

    announced    a pause before the deadline  -> decision
    by nobody    any                          -> End(action_unknown)
    by somebody  yes                          -> Again(generation + 1, same attempt, after 1, 2, 4 ... 30 s)
    by somebody  no                           -> End(deadline_exceeded)

So an old worker and a new one may serve one queue while a deploy rolls.

Before a run, of a call that was handed out before (lost: how often a consumer had it and died, by the broker's count):

    lost                  policy       last started alone  -> decision
    0                     any                              -> Start
    >= 1                  rerun=False                      -> End(outcome_unknown)
    >= 1                  crashes=1                        -> Dead(attempts_exhausted)
    < crashes - 1         else                             -> Start
    crashes - 1           else                             -> StartAlone
    >= crashes            else         never               -> StartAlone
    >= crashes            else         not lost since      -> StartAlone
    >= crashes            else         lost since          -> Dead(attempts_exhausted)
    >= MOST_LOST          else                             -> Dead(attempts_exhausted)
    no count to go by     rerun=False                      -> End(outcome_unknown)
    no count to go by     else                             -> Start

A worker that dies loses every call that it was given, those that did not kill it and those that it had not started yet
among them. So the count alone convicts nobody: the last start that a call has is one with nothing beside it, and the
call is given up when that one was lost too. It is never started more often than `crashes` says, and may be less often.
Not every call that came back is started alone, since after a restart of the broker all that was in flight comes back.

After a run:

    outcome   policy and deadline                        -> disposition
    Ended     any                                        -> End(response)
    Raised    no retry, or not for this exception        -> End(response)
    Raised    last attempt                               -> Dead(attempts_exhausted, with the last response)
    Raised    the pause reaches past the deadline        -> End(response)
    Raised    else                                       -> Again(generation + 1, attempt + 1, after the pause)
    Deferred  the pause reaches past the deadline        -> End(deadline_exceeded)
    Deferred  else                                       -> Again(generation + 1, same attempt, its state)

Whoever carries it out replies first and settles last: End: reply, settle. Dead: dead-letter, reply, settle. Again:
publish the next generation, settle.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers import failures
from grundlag_bus.schema.envelope import Call, Failed, Response
from grundlag_bus.tools.endings import outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_PAUSE = 2**20 - 1
"""Seconds: what the delay ladder holds."""

MOST_LOST = 500
"""However often workers died under others: the broker's own limit is 1,000, and it tells no caller."""


LONGEST_ABSENCE = 30.0
"""Seconds: the longest pause of a call that waits for a worker which has its action."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Start an action again when it raises certain exceptions.

    on: the exceptions; attempts: starts in all; backoff: seconds before the second start, doubled before each further
    one, or the pauses one by one, of which the last is repeated. Raises ConfigurationError.
    """

    on: type[Exception] | tuple[type[Exception], ...]
    attempts: int = 3
    backoff: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        kinds: tuple[Any, ...] = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(inspect.isclass(kind) and issubclass(kind, Exception) for kind in kinds):
            raise ConfigurationError(f"Retry(on={self.on!r}) names no exception classes: give one, or a tuple of them.")
        if self.attempts < 1:
            raise ConfigurationError(f"Retry(attempts={self.attempts}) starts nothing: give at least 1.")
        pauses = [self.backoff] if isinstance(self.backoff, int | float) else list(self.backoff)
        if not pauses or not all(0 <= pause <= LONGEST_PAUSE for pause in pauses):
            raise ConfigurationError(
                f"Retry(backoff={self.backoff!r}) is no pause: give seconds from 0 to {LONGEST_PAUSE}, or several."
            )

    def applies(self, error: BaseException, attempt: int) -> bool:
        """Whether the action may be started again after this attempt (from 1) raised that."""
        return attempt < self.attempts and isinstance(error, self.on)

    def pause(self, attempt: int) -> float:
        """Return the seconds after the attempt of this number (from 1) failed."""
        if isinstance(self.backoff, int | float):
            return min(self.backoff * 2.0 ** min(attempt - 1, 30), LONGEST_PAUSE)
        return self.backoff[min(attempt, len(self.backoff)) - 1]


@dataclass(frozen=True, slots=True)
class Policy:
    """What an action allows to be done with its calls.

    retry: for exceptions, None for never; crashes: starts in all when workers die; rerun: whether it may be started
    again at all when one did. Raises ConfigurationError.
    """

    retry: Retry | None = None
    crashes: int = 3
    rerun: bool = True

    def __post_init__(self) -> None:
        if self.crashes < 1:
            raise ConfigurationError(f"crashes={self.crashes} starts nothing: give at least 1.")


# --- outcomes of one run ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """The call has its response."""

    response: Response


@dataclass(frozen=True, slots=True)
class Raised:
    """The action raised; `response` is what that means if it is not started again."""

    error: BaseException
    response: Failed


@dataclass(frozen=True, slots=True)
class Deferred:
    """The action wants to be started again in `after` seconds, with `state`."""

    state: Any
    after: float


Outcome = Ended | Raised | Deferred


# --- dispositions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """Reply, then settle."""

    response: Response


@dataclass(frozen=True, slots=True)
class Again:
    """Publish `call`, the next generation, to arrive after `pause` seconds; then settle.

    otherwise: what the call ends with where that cannot be published; why: one word for who counts.
    """

    call: Call
    pause: float
    otherwise: Failed
    why: Literal["retry", "defer", "absent"]


@dataclass(frozen=True, slots=True)
class Dead:
    """Dead-letter, reply, then settle."""

    response: Failed


Disposition = End | Again | Dead


@dataclass(frozen=True, slots=True)
class Start:
    """Start it, beside others."""


@dataclass(frozen=True, slots=True)
class StartAlone:
    """Start it with nothing beside it, for the last time."""


def of_absent(call: Call, *, announced: bool, now: float) -> End | Again:
    """Decide what is to be done with a call of an action that this worker lacks. announced: by another."""
    if not announced:
        return End(failures.action_unknown(call))
    left = call.deadline - now
    pause = min(2.0 ** min(call.generation - 1, 30), LONGEST_ABSENCE)
    while pause > 1 and not pause < left:
        pause = max(pause // 2, 1.0)
    told = f"{call.provider_id}.{call.action_id} is announced, and went to a worker that does not have it"
    if not pause < left:
        why = f"{told}, until its deadline passed: see which workers are of an older version."
        return End(Failed("deadline_exceeded", why, {"published": True}))
    not_taken = Failed("overloaded", f"{told}, and the broker did not take it for later.", retryable=True)
    return Again(replace(call, generation=call.generation + 1), pause, not_taken, "absent")


def before_run(
    call: Call, policy: Policy, *, lost: int | None, alone_at: int | None = None, alone_in: str | None = None
) -> Start | StartAlone | End | Dead:
    """Decide what is to be done with a call that was handed out before.

    lost: None where the broker's count means nothing; alone_at: how often it had been lost when it was last started
    alone, None for never; alone_in: the worker where that was, if it is known.
    """
    if not policy.rerun and lost != 0:
        told = "a worker that had it ended without a word, and it may not be started again"
        return End(outcome_unknown(call, told, published=True))
    if not lost or (lost < policy.crashes - 1 and lost < MOST_LOST):
        return Start()
    lost_alone = alone_at is not None and lost > alone_at and lost >= policy.crashes
    if policy.crashes > 1 and lost < MOST_LOST and not lost_alone:
        return StartAlone()
    return Dead(_lost(call, lost, starts=min(lost, policy.crashes), alone=lost_alone, where=alone_in))


def _lost(call: Call, lost: int, *, starts: int, alone: bool, where: str | None) -> Failed:
    told = f"{call.provider_id}.{call.action_id} lost its worker {lost} times"
    if lost > starts:
        told += f", {starts} of them at most after a start of its own (the others while it waited to be started)"
    details: dict[str, Any] = {"starts": starts, "lost": lost}
    if alone:
        told += ", at last while nothing ran beside it"
        if where is not None:
            told += f", in {where}"
            details["lastWorker"] = where
    return Failed("attempts_exhausted", f"{told}: see the workers' logs for what ended them.", details)


def after_run(outcome: Outcome, call: Call, policy: Policy, *, now: float) -> Disposition:
    """Decide what follows a run that ended at `now` (Unix seconds)."""
    match outcome:
        case Ended(response):
            return End(response)
        case Deferred(state, after):
            if not now + after < call.deadline:
                return End(
                    Failed(
                        "deadline_exceeded",
                        f"{call.provider_id}.{call.action_id} deferred the call for {after:g} s, which is past its "
                        "deadline: give it a longer timeout.",
                        {"published": True},
                    )
                )
            later = replace(call, generation=call.generation + 1, deferred=state)
            return Again(later, after, _not_deferred(call), "defer")
        case Raised(error, response):
            return _after_exception(error, response, call, policy.retry, now)


def _after_exception(
    error: BaseException, response: Failed, call: Call, retry: Retry | None, now: float
) -> Disposition:
    if retry is None or retry.attempts == 1 or not isinstance(error, retry.on):
        return End(response)
    if call.attempt >= retry.attempts:
        last = {"code": response.code, "message": response.message, "details": response.details}
        return Dead(
            Failed(
                "attempts_exhausted",
                f"{call.provider_id}.{call.action_id} failed {call.attempt} times, at last with: {response.message}",
                {"starts": call.attempt, "last": last},
                items=response.items,
            )
        )
    pause = retry.pause(call.attempt)
    if not now + pause < call.deadline:
        return End(response)
    return Again(replace(call, generation=call.generation + 1, attempt=call.attempt + 1), pause, response, "retry")


def _not_deferred(call: Call) -> Failed:
    return Failed(
        "overloaded",
        f"{call.provider_id}.{call.action_id} deferred the call, and the broker did not take it for later.",
        retryable=True,
    )


def checked_pause(seconds: Any) -> float:
    """Return the seconds that an action wants to wait. Raises TypeError when nothing can wait for so long."""
    if not (isinstance(seconds, int | float) and math.isfinite(seconds) and 0 <= seconds <= LONGEST_PAUSE):
        raise TypeError(f"Defer(after={seconds!r}) is no pause: give seconds from 0 to {LONGEST_PAUSE}")
    return float(seconds)
