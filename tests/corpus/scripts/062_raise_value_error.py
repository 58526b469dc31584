# task: Check that the dates are in order and stop with an error if the end is before the start.
# expects-failure: ValueError
from datetime import date


def check(start: str, end: str) -> int:
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    if last < first:
        raise ValueError(f"end {last} is before start {first}")
    return (last - first).days


{"days": check("2026-09-20", "2026-09-14")}
