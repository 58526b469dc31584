"""Throughput over time as text, with the faults below it: one row for each kind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grundlag_bus.chaos.field import Mark

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def columns(completed: Sequence[int], width: int) -> list[float]:
    """Average the calls of each second over not more than so many columns."""
    count = min(width, len(completed))
    edges = [index * len(completed) // count for index in range(count + 1)] if count else []
    return [sum(completed[begin:end]) / (end - begin) for begin, end in itertools.pairwise(edges) if end > begin]


def bars(values: Sequence[float], height: int) -> list[str]:
    """Draw a bar for each value, in so many lines, the highest first."""
    top = max(values, default=0) or 1
    eighths = [round(value / top * height * 8) for value in values]
    return ["".join(_EIGHTHS[min(max(each - 8 * row, 0), 8)] for each in eighths) for row in reversed(range(height))]


def strip(marks: Sequence[Mark], *, begin: float, seconds: int, width: int) -> str:
    """Mark the columns in which faults began or lasted."""
    count = min(width, seconds)
    cells = [" "] * count
    for mark in marks:
        first = _column(mark.at - begin, seconds, count)
        last = first if mark.until is None else _column(mark.until - begin, seconds, count)
        for index in range(max(first, 0), min(last, count - 1) + 1):
            cells[index] = "•"
    return "".join(cells)


def _column(second: float, seconds: int, count: int) -> int:
    return int(second * count / seconds) if seconds else 0
