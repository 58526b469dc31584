# task: Find the first one-hour slot on 15 September 2026 between 9 and 17 UTC that suits Ann, Ben and Cleo, and book it.
# expects: {"slot": "2026-09-15T12:00:00+00:00", "booked": true}
from datetime import datetime, timedelta, timezone


def at(hour: float) -> datetime:
    return datetime(2026, 9, 15, tzinfo=timezone.utc) + timedelta(hours=hour)


busy = {
    "Ann": [(at(9), at(10.5)), (at(14), at(15))],
    "Ben": [(at(10), at(11.25))],
    "Cleo": [(at(11), at(12)), (at(16), at(17))],
}
LENGTH = timedelta(hours=1)


def merge(intervals: list[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def first_slot(taken: list[tuple[datetime, datetime]]) -> datetime | None:
    cursor = at(9)
    for start, end in taken:
        if start - cursor >= LENGTH:
            return cursor
        cursor = max(cursor, end)
    return cursor if at(17) - cursor >= LENGTH else None


slot = first_slot(merge([i for intervals in busy.values() for i in intervals]))
booked = None
if slot is not None:
    booked = await calendarCreateEvent(title="Joint meeting", startsAt=slot.isoformat(), durationMinutes=60)

{"slot": slot.isoformat() if slot else None, "booked": booked is not None}
