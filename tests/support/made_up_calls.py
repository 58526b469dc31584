"""Histories that never happened: one call as it should be, to be spoilt by a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grundlag_bus.chaos.checker import Verdict, judge
from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.history import Acknowledged, Attempted, Effect, Ended, Record, Started
from grundlag_bus.chaos.remains import Remains

QUEUE = "chaos-1.1.calls.chaos.main"


@dataclass
class MadeUp:
    """The records of one call: attempted at `at`, started a second later, ended two seconds later."""

    call_id: str = "c1"
    at: float = 10.0
    kind: str = "quick"
    kept: bool = False
    how: str = "completed"
    by: str = "worker-1"
    told: str | None = None
    starts: int = 1
    caller: str = "caller-1"

    @property
    def repeatable(self) -> bool:
        return self.kept or self.kind == "again"

    @property
    def attempted(self) -> Attempted:
        return Attempted(
            self.at, self.call_id, self.caller, 1, self.kind, self.kept, self.repeatable, QUEUE, self.at + 60
        )

    @property
    def acknowledged(self) -> Acknowledged:
        return Acknowledged(self.at + 0.1, self.call_id)

    def started(self, number: int = 1, **changes: Any) -> Started:
        fence = number if self.kept else None
        return replace(Started(self.at + number / 10, self.call_id, "worker-1", 1, fence), **changes)

    def effect(self, number: int = 1) -> Effect:
        return Effect(self.at + number / 10, self.call_id, "worker-1", number if self.kept else None)

    def ended(self, **changes: Any) -> Ended:
        fence = self.starts if self.kept else None
        return replace(Ended(self.at + 2, self.call_id, self.how, self.by, fence=fence, told=self.told), **changes)

    @property
    def records(self) -> list[Record]:
        numbers = range(1, self.starts + 1)
        ran: list[Record] = [each for number in numbers for each in (self.started(number), self.effect(number))]
        return [self.attempted, self.acknowledged, *ran, self.ended()]


def fault(name: str = "worker-kill", *, at: float = 9.0, until: float = 9.5, target: str = "worker-2") -> Mark:
    return Mark(at, name, target, until)


def verdict_of(records: Sequence[Record], *, remains: Remains | None = None, until: float = 0.0) -> Verdict:
    """Judge the records. until: when the load ended; faults after it tell nothing of recovery."""
    return judge(records, remains or Remains(), until=until)


def promises(records: Sequence[Record], *, remains: Remains | None = None) -> list[str]:
    """Name the promises that the records show to be broken."""
    return [broken.promise for broken in verdict_of(records, remains=remains).broken]
