"""How the memory of a process grows from a tenth of its calls to all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.chaos.history import Memory

MOST = 0.05
ENOUGH = 20_000
"""Calls from which on a process has settled at a tenth of them: below, growth is shown and not judged."""


@dataclass(frozen=True, slots=True)
class Growth:
    """early, late: bytes after a tenth of the calls, and after all of them."""

    process: str
    calls: int
    early: int
    late: int

    @property
    def share(self) -> float:
        return self.late / self.early - 1

    @property
    def too_much(self) -> bool:
        return self.calls >= ENOUGH and self.late > self.early * (1 + MOST)


def growths(samples: Iterable[Memory]) -> list[Growth]:
    """Measure the longest life of each process.

    What calls take while they run comes and goes: the least of a stretch counts, from a tenth of the calls to a fifth,
    and the last tenth.
    """
    lives: dict[tuple[str, int], list[Memory]] = defaultdict(list)
    for sample in samples:
        if sample.size:
            lives[sample.process, sample.life].append(sample)
    longest: dict[str, list[Memory]] = {}
    for (process, _), life in sorted(lives.items()):
        if process not in longest or _calls(life) > _calls(longest[process]):
            longest[process] = life
    return [growth for process, life in longest.items() if (growth := _growth(process, life)) is not None]


def _growth(process: str, life: list[Memory]) -> Growth | None:
    calls = _calls(life)
    early = [sample.size for sample in life if calls / 10 <= sample.calls <= calls / 5]
    late = [sample.size for sample in life if sample.calls >= calls * 9 / 10]
    return Growth(process, calls, min(early), min(late)) if calls and early else None


def _calls(life: list[Memory]) -> int:
    return max(sample.calls for sample in life)
