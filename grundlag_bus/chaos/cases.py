"""Everything that the histories say of one call, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grundlag_bus.chaos.history import Acknowledged, Attempted, Effect, Ended, Started, Told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.chaos.history import Record


@dataclass(slots=True)
class Case:
    """attempts: more than one where a caller died and its successor called again."""

    call_id: str
    attempts: list[Attempted] = field(default_factory=list)
    confirmed: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    starts: list[Started] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    @property
    def first(self) -> Attempted:
        return min(self.attempts, key=lambda attempt: attempt.at)

    @property
    def last(self) -> Attempted:
        return max(self.attempts, key=lambda attempt: attempt.at)

    @property
    def end(self) -> Ended | None:
        """How it ended first."""
        return min(self.ends, key=lambda end: end.at) if self.ends else None


def cases_of(records: Iterable[Record]) -> tuple[dict[str, Case], dict[str, Case]]:
    """Sort records by call: those that callers know, and those that only workers do."""
    cases: dict[str, Case] = {}

    def case(call_id: str) -> Case:
        found = cases.get(call_id)
        if found is None:
            found = cases[call_id] = Case(call_id)
        return found

    for record in records:
        match record:
            case Attempted():
                case(record.call_id).attempts.append(record)
            case Acknowledged():
                case(record.call_id).confirmed.append(record.at)
            case Told():
                case(record.call_id).told.append(record.at)
            case Ended():
                case(record.call_id).ends.append(record)
            case Started():
                case(record.call_id).starts.append(record)
            case Effect():
                case(record.call_id).effects.append(record)
            case _:
                pass
    known = {call_id: each for call_id, each in cases.items() if each.attempts}
    return known, {call_id: each for call_id, each in cases.items() if not each.attempts}
