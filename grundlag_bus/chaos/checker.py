"""The verdict: from what processes wrote and what is left, to what was kept and what was broken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grundlag_bus.chaos.cases import cases_of
from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.growth import Growth, growths
from grundlag_bus.chaos.history import CALLER_DIED, Began, Closed, Memory
from grundlag_bus.chaos.promises import Broken, Faults, broken_by, duplicated
from grundlag_bus.chaos.recovery import Recovery, merged, recoveries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grundlag_bus.chaos.cases import Case
    from grundlag_bus.chaos.history import Record
    from grundlag_bus.chaos.remains import Remains

_AT_REST = frozenset({"ended", "dead"})


@dataclass(frozen=True, slots=True)
class Throughput:
    """completed: calls that completed in each second since `begin`."""

    begin: float
    completed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run showed.

    kinds: calls by kind; ended: calls by how they ended; duplicated: calls whose effect happened more than once,
    `without` a ledger, `with` one, and `stored` in its database; lives: how often each process began; late: replies
    that came to a caller, or to its mailbox, after the call had ended; letters: dead letters, by code.
    """

    attempted: int
    acknowledged: int
    kinds: Mapping[str, int]
    ended: Mapping[str, int]
    lost: int
    hung: int
    duplicated: Mapping[str, int]
    late: int
    letters: Mapping[str, int]
    lives: Mapping[str, int]
    recoveries: tuple[Recovery, ...]
    growths: tuple[Growth, ...]
    broken: tuple[Broken, ...]
    marks: tuple[Mark, ...] = field(repr=False)
    throughput: Throughput = field(repr=False)

    @property
    def failed(self) -> dict[str, int]:
        """Calls that failed, by code."""
        others = ("completed", "interrupted", CALLER_DIED)
        return {how: count for how, count in sorted(self.ended.items()) if how not in others}


def judge(records: Iterable[Record], remains: Remains, *, until: float, late_processes: Sequence[str] = ()) -> Verdict:
    """Judge a run. until: when the load ended; late_processes: those that did not end when they were told to."""
    records = list(records)
    cases, unknown = cases_of(records)
    marks = merged(record for record in records if isinstance(record, Mark))
    faults = Faults(marks)
    recovered = recoveries(marks, cases.values(), until=until)
    grown = growths(record for record in records if isinstance(record, Memory))
    closed = [record for record in records if isinstance(record, Closed)]
    broken = [
        *(each for case in cases.values() for each in broken_by(case, faults, remains.stored.get(case.call_id, ()))),
        *(each for case in unknown.values() if case.starts for each in broken_by(case, faults, ())),
        *_broken_by_remains(remains, cases, faults),
        *_broken_by_processes(recovered, grown, closed, late_processes),
    ]
    promises = Counter(each.promise for each in broken)
    return Verdict(
        attempted=len(cases),
        acknowledged=sum(bool(case.confirmed) for case in cases.values()),
        kinds=Counter(case.first.kind for case in cases.values()),
        ended=Counter(case.end.how for case in cases.values() if case.end is not None),
        lost=promises["lost"],
        hung=promises["hung"],
        duplicated=duplicated(cases.values(), remains.stored),
        late=len(remains.late) + sum(each.late for each in closed),
        letters=Counter(code for codes in remains.letters.values() for code in codes),
        lives=Counter(record.process for record in records if isinstance(record, Began)),
        recoveries=tuple(recovered),
        growths=tuple(grown),
        broken=tuple(broken),
        marks=tuple(marks),
        throughput=_throughput(cases.values()),
    )


def _broken_by_remains(remains: Remains, cases: Mapping[str, Case], faults: Faults) -> Iterator[Broken]:
    for queue, messages in sorted(remains.waiting.items()):
        yield Broken("left on the broker", f"{queue} holds {messages} messages")
    on_their_way = {phase: rows for phase, rows in sorted(remains.rows.items()) if phase not in _AT_REST}
    # A fault that deletes a queue takes the calls in it, and not their rows.
    taken = sum(case.first.kept and case.end is not None and faults.deleted(case, case.end) for case in cases.values())
    if sum(on_their_way.values()) > taken:
        for phase, rows in on_their_way.items():
            yield Broken("left in the ledger", f"{rows} calls are {phase}, and deleted queues took at most {taken}")
    for call_id in sorted({*remains.letters, *remains.late, *remains.stored} - cases.keys()):
        yield Broken("unknown", f"call {call_id} was never made, and left something", call_id)
    for case in cases.values():
        end = case.end
        if end is not None and end.how == "attempts_exhausted" and case.call_id not in remains.letters:
            yield Broken("not buried", f"call {case.call_id} was given up, and is no dead letter", case.call_id)


def _broken_by_processes(
    recovered: Iterable[Recovery], grown: Iterable[Growth], closed: Iterable[Closed], late: Sequence[str]
) -> Iterator[Broken]:
    for each in recovered:
        if each.too_slow:
            yield Broken("slow recovery", f"after {each.fault} it took {each.seconds:.1f} s, and {each.bound:g} s may")
    for growth in grown:
        if growth.too_much:
            told = f"{growth.process} grew by {growth.share:.1%} from {growth.calls // 10} calls to {growth.calls}"
            yield Broken("memory", told)
    for process in closed:
        if process.left:
            yield Broken("left in a process", f"{process.process} left {len(process.left)}: {process.left[0]}")
    for name in late:
        yield Broken("never ended", f"{name} did not end when it was told to")


def _throughput(cases: Iterable[Case]) -> Throughput:
    ends = [case.end.at for case in cases if case.end is not None and case.end.how == "completed"]
    begins = [case.first.at for case in cases]
    if not ends:
        return Throughput(min(begins, default=0.0), ())
    begin = min(begins)
    completed = Counter(int(end - begin) for end in ends)
    return Throughput(begin, tuple(completed[second] for second in range(int(max(ends) - begin) + 1)))
