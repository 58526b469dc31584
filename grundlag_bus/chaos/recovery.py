"""How long it takes after a fault until calls complete again.

It is counted from the healing of a fault to the first completed call that began after it, for each caller; the slowest
caller counts. A fault tells nothing where another one lasted or began meanwhile, or the load ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grundlag_bus.chaos.cases import Case
    from grundlag_bus.chaos.field import Mark


@dataclass(frozen=True, slots=True)
class Recovery:
    """The worst of a kind of fault. seconds: None where none of them tells; bound: what it is held to."""

    fault: str
    count: int
    judged: int
    seconds: float | None
    bound: float

    @property
    def told(self) -> str:
        if self.seconds is None:
            return "not told"
        return "never" if math.isinf(self.seconds) else f"{self.seconds:.1f} s"

    @property
    def too_slow(self) -> bool:
        return self.seconds is not None and self.seconds > self.bound


def recoveries(marks: Sequence[Mark], cases: Iterable[Case], *, until: float) -> list[Recovery]:
    """Return the worst recovery of each kind of fault. until: when the load ended."""
    served = _first_served(cases)
    counts: dict[str, int] = defaultdict(int)
    bounds: dict[str, float] = {}
    measured: dict[str, list[float]] = defaultdict(list)
    for mark in marks:
        counts[mark.fault] += 1
        bounds[mark.fault] = max(mark.within, bounds.get(mark.fault, 0.0))
        if mark.until is not None and (took := _recovery(mark, marks, served, until)) is not None:
            measured[mark.fault].append(took)
    return [
        Recovery(fault, count, len(measured[fault]), max(measured[fault], default=None), bounds[fault])
        for fault, count in sorted(counts.items())
    ]


def _recovery(
    mark: Mark, marks: Sequence[Mark], served: Mapping[str, tuple[list[float], list[float]]], until: float
) -> float | None:
    """Measure one fault; None where that tells nothing, infinity where calls never completed again."""
    healed = mark.until or mark.at
    took = max((_after(healed, *times) - healed for times in served.values()), default=math.inf)
    end = healed + min(took, mark.within)
    disturbed = any(
        other is not mark and other.at <= end and (other.until is None or other.until >= healed) for other in marks
    )
    return None if end > until or disturbed else took


def _first_served(cases: Iterable[Case]) -> dict[str, tuple[list[float], list[float]]]:
    """For each caller: when calls that completed began, sorted, and beside each the first end of it and all later."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case in cases:
        if case.end is not None and case.end.how == "completed":
            spans[case.last.caller].append((case.last.at, case.end.at))
    served = {}
    for caller, each in spans.items():
        each.sort()
        ends = [end for _, end in each]
        for index in range(len(ends) - 2, -1, -1):
            ends[index] = min(ends[index], ends[index + 1])
        served[caller] = ([begin for begin, _ in each], ends)
    return served


def _after(instant: float, begins: list[float], ends: list[float]) -> float:
    index = bisect_left(begins, instant)
    return ends[index] if index < len(ends) else math.inf


def merged(marks: Iterable[Mark]) -> list[Mark]:
    """Make one of the two marks of each fault: that of its beginning, and that of its healing."""
    found: dict[tuple[float, str, str], Mark] = {}
    for mark in marks:
        key = (mark.at, mark.fault, mark.target)
        known = found.get(key)
        if known is None or known.until is None:
            found[key] = mark
    return sorted(found.values(), key=lambda mark: mark.at)
