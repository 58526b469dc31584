"""The promises of DESIGN 8 that one call shows, each decided from what the histories say of it.

"Ended exactly once at its caller or its caller's successor" means: over all lives of a caller, a call has one end. A
successor gives it that end by calling again with the same id where the action is idempotent or its workers have a
ledger; elsewhere nobody may, and the end is `caller_died` (see `succession`).

    hung                  it has no end
    lost                  the broker confirmed it, and its caller gave it up at its deadline
    ended twice           it has two ends
    foreign               it ended with what is not its own result
    unexpected            it failed with a code that neither its kind nor a fault explains
    unsure                it may be sent again, and ended as `outcome_unknown` all the same
    run again             its workers have a ledger, and it was started after it had ended
    started twice         its action says `rerun=False`
    one fence twice       two of its starts have one fence
    stored twice          its effect in the ledger's database is there more than once
    stored otherwise      that effect is missing, or not of the start that its result is from
    unknown               a worker started what no caller ever called

What no promise covers is counted alone: an effect outside of the ledger's database may happen more than once.

A call that waited in a queue which a fault deleted is nobody's to keep: it may end at its deadline. So may one that a
worker with a wrong clock took.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.chaos.field import CLOCK_JUMP, QUEUE_DELETION, RECOVERS_WITHIN
from grundlag_bus.chaos.history import CALLER_DIED
from grundlag_bus.chaos.provider import FAILURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grundlag_bus.chaos.cases import Case
    from grundlag_bus.chaos.field import Mark
    from grundlag_bus.chaos.history import Ended

_NEARLY = 1.0
"""Seconds by which two clocks on one machine, and the making of a call, may differ."""
_LADDER = ".delay."
_DELAYED = frozenset({"retrying", "deferring"})


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept. told: what happened instead."""

    promise: str
    told: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a run, as far as they explain how a call may end."""

    marks: Sequence[Mark]

    def during(self, begin: float, end: float) -> Iterator[Mark]:
        """List those that lasted, or began, between two instants."""
        for mark in self.marks:
            if mark.at <= end and (mark.until is None or mark.until >= begin):
                yield mark

    def touched(self, begin: float, end: float) -> bool:
        """Whether a call of that time may have met a fault, also one that calls recover from still."""
        return any(mark.until is None or mark.until + mark.within >= begin for mark in self.marks if mark.at <= end)

    def deleted(self, case: Case, end: Ended) -> bool:
        """Whether a queue in which the call may have waited was deleted meanwhile."""
        return any(_waits_there(case, mark) for mark in self.during(case.first.at, end.at))

    def missing(self, case: Case, end: Ended) -> bool:
        """Whether the queue in which the call was to wait was deleted, and may not have been there again."""
        return any(_waits_there(case, mark) for mark in self.during(case.first.at - RECOVERS_WITHIN, end.at))

    def misled(self, case: Case, end: Ended) -> bool:
        """Whether a worker that had the call had a wrong clock meanwhile: to it, nobody may have waited any more."""
        workers = {start.worker for start in case.starts}
        return any(mark.fault == CLOCK_JUMP and mark.target in workers for mark in self.during(case.first.at, end.at))

    @property
    def clocks(self) -> bool:
        """Whether a process had a wrong clock at any time."""
        return any(mark.fault == CLOCK_JUMP for mark in self.marks)


def _waits_there(case: Case, deletion: Mark) -> bool:
    if deletion.fault != QUEUE_DELETION:
        return False
    return deletion.target == case.first.queue or (_LADDER in deletion.target and case.first.kind in _DELAYED)


def broken_by(case: Case, faults: Faults, stored: Sequence[int]) -> Iterator[Broken]:
    """Find what a call shows to be broken. stored: the fences of its effects in the ledger's database."""
    if not case.attempts:
        found = [("unknown", f"was started {len(case.starts)} times")]
    else:
        found = [*_by_its_end(case, faults), *_by_its_starts(case), *_by_what_it_stored(case, stored)]
    for promise, told in found:
        yield Broken(promise, f"{_name(case)} {told}", case.call_id)


def _by_its_end(case: Case, faults: Faults) -> Iterator[tuple[str, str]]:
    end = case.end
    if end is None:
        yield "hung", "has no end"
        return
    if len(case.ends) > 1:
        yield "ended twice", f"ended as {' and '.join(each.how for each in case.ends)}"
    if not end.fits:
        yield "foreign", f"ended as {end.how} with what is not its own"
    if is_lost(case, faults):
        yield "lost", "was confirmed, and given up at its deadline"
    elif why := _unexpected(case, end, faults):
        yield why


def _by_its_starts(case: Case) -> Iterator[tuple[str, str]]:
    if case.first.kept and case.end is not None and _starts_after(case, case.end):
        yield "run again", f"was started after it had ended as {case.end.how}"
    if case.first.kind == "once" and len(case.starts) > 1:
        yield "started twice", f"was started {len(case.starts)} times"
    fences = [start.fence for start in case.starts if start.fence is not None]
    if len(fences) > len(set(fences)):
        yield "one fence twice", f"was started under the fences {sorted(fences)}"


def _by_what_it_stored(case: Case, stored: Sequence[int]) -> Iterator[tuple[str, str]]:
    end = case.end
    if len(stored) > 1:
        yield "stored twice", f"wrote {len(stored)} rows"
    elif case.first.kind == "storing" and end is not None and end.how == "completed" and list(stored) != [end.fence]:
        yield "stored otherwise", f"completed under fence {end.fence}, and wrote under {list(stored)}"


def is_lost(case: Case, faults: Faults) -> bool:
    """Whether the broker confirmed it, and nobody has heard of it until its caller gave it up."""
    end = case.end
    if end is None or not case.confirmed or end.how != "deadline_exceeded" or end.by != "caller":
        return False
    return case.first.kind != "cancelled" and not faults.deleted(case, end) and not faults.misled(case, end)


def _unexpected(case: Case, end: Ended, faults: Faults) -> tuple[str, str] | None:
    """Say what is wrong with how it ended, where no fault explains that."""
    kind, how, told = case.first.kind, end.how, f": {end.told}" if end.told else ""
    met = faults.touched(case.first.at, end.at)
    expected = {
        "completed": True,  # where that cannot be, it does not fit
        "interrupted": kind == "asking",
        FAILURE: kind == "failing",
        "cancelled": kind == "cancelled",
        CALLER_DIED: not case.first.repeatable and end.by == "caller",
        "deadline_exceeded": faults.clocks or end.at >= case.last.until - _NEARLY,
        "provider_unavailable": faults.missing(case, end),
        "overloaded": met,
        "attempts_exhausted": met,
        "outcome_unknown": met or kind == "cancelled",
    }
    if not expected.get(how, False):
        return "unexpected", f"ended as {how}{told}"
    if how == "outcome_unknown" and case.first.repeatable and kind not in ("cancelled", "once"):
        return "unsure", f"may be sent again, and ended as outcome_unknown{told}"
    return None


def _starts_after(case: Case, end: Ended) -> bool:
    """Whether it was started after a worker had ended it: a stale start that was held up has an older fence."""
    if end.by == "caller":
        return False
    known = max((start.fence or 0 for start in case.starts if start.at <= end.at), default=0)
    return any(start.at > end.at and (start.fence or 0) > known for start in case.starts)


def _name(case: Case) -> str:
    if not case.attempts:
        return f"call {case.call_id}"
    first = case.first
    return f"call {first.caller}/{first.ordinal} ({first.kind}{', kept' if first.kept else ''})"


def duplicated(cases: Iterable[Case], stored: Mapping[str, Sequence[int]]) -> Counter[str]:
    """Count the calls whose effect happened more than once: without a ledger, with one, and in its database."""
    counts: Counter[str] = Counter({"without": 0, "with": 0, "stored": 0})
    for case in cases:
        if len(case.effects) > 1:
            counts["with" if case.attempts and case.first.kept else "without"] += 1
    counts["stored"] = sum(len(fences) > 1 for fences in stored.values())
    return counts
