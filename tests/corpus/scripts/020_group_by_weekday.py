# task: Create the events and group their titles by date with itertools.groupby.
# expects: {"2026-09-14": ["A", "B"], "2026-09-15": ["C"], "2026-09-16": ["D", "E"]}
import asyncio
from datetime import datetime, timezone
from itertools import groupby

plan = [
    ("A", "2026-09-14T08:00:00+00:00"),
    ("D", "2026-09-16T08:00:00+00:00"),
    ("B", "2026-09-14T11:00:00+00:00"),
    ("C", "2026-09-15T09:30:00+00:00"),
    ("E", "2026-09-16T15:00:00+00:00"),
]
await asyncio.gather(*[calendarCreateEvent(title=t, startsAt=s) for t, s in plan])

events = (await calendarSearchEvents(startsFrom="2026-09-14T00:00:00+00:00", limit=50))["events"]


def day_of(event: CalendarSearchEventsResultCalendarEvent) -> str:
    return datetime.fromisoformat(event["startsAt"]).astimezone(timezone.utc).date().isoformat()


events.sort(key=lambda e: (day_of(e), e["title"]))
{day: [e["title"] for e in group] for day, group in groupby(events, key=day_of)}
