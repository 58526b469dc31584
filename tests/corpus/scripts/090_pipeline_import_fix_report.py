# task: Import the team calendar, find double bookings, and for each one create a reminder to resolve it half an hour before; return a report.
# inputs: {"ics_text": "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Pipeline//EN\nBEGIN:VEVENT\nUID:p1@example.com\nDTSTAMP:20260901T000000Z\nDTSTART:20260914T080000Z\nDTEND:20260914T093000Z\nSUMMARY:Sprint planning\nEND:VEVENT\nBEGIN:VEVENT\nUID:p2@example.com\nDTSTAMP:20260901T000000Z\nDTSTART:20260914T090000Z\nDTEND:20260914T100000Z\nSUMMARY:Interview\nEND:VEVENT\nBEGIN:VEVENT\nUID:p3@example.com\nDTSTAMP:20260901T000000Z\nDTSTART:20260914T100000Z\nDTEND:20260914T110000Z\nSUMMARY:Lunch\nEND:VEVENT\nEND:VCALENDAR\n"}
# expects: {"imported": 3, "clashes": [{"events": ["Sprint planning", "Interview"], "reminderAt": "2026-09-14T08:30:00+00:00"}], "reminders": ["Resolve: Sprint planning / Interview"]}
import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any


@dataclass
class Interval:
    title: str
    start: datetime
    end: datetime


def parse(event: CalendarImportIcsResultCalendarEvent) -> Interval:
    return Interval(
        title=event["title"],
        start=datetime.fromisoformat(event["startsAt"]).astimezone(timezone.utc),
        end=datetime.fromisoformat(event["endsAt"]).astimezone(timezone.utc),
    )


def find_clashes(intervals: list[Interval]) -> list[tuple[Interval, Interval]]:
    ordered = sorted(intervals, key=lambda i: i.start)
    clashes = []
    for index, first in enumerate(ordered):
        for second in ordered[index + 1 :]:
            if second.start >= first.end:
                break
            clashes.append((first, second))
    return clashes


async def remind(first: Interval, second: Interval) -> dict[str, Any]:
    reminder_at = second.start - timedelta(minutes=30)
    await calendarCreateEvent(
        title=f"Resolve: {first.title} / {second.title}",
        startsAt=reminder_at.isoformat(),
        durationMinutes=5,
        description=f"{first.title} ends {first.end:%H:%M}, but {second.title} starts {second.start:%H:%M}.",
    )
    return {"events": [first.title, second.title], "reminderAt": reminder_at.isoformat()}


async def main() -> dict[str, Any]:
    imported = await calendarImportIcs(ics=ics_text)
    clashes = find_clashes([parse(e) for e in imported["events"]])
    report = await asyncio.gather(*(remind(a, b) for a, b in clashes))
    reminders = await calendarSearchEvents(text="Resolve:")
    return {
        "imported": imported["imported"],
        "clashes": list(report),
        "reminders": [e["title"] for e in reminders["events"]],
    }


await main()
