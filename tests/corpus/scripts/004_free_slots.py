# task: I'm working 9 to 17 (UTC+2) on 14 September 2026. Book the listed meetings and tell me the free slots of at least 30 minutes.
# expects: [{"from": "09:00", "to": "10:00", "minutes": 60}, {"from": "11:30", "to": "13:00", "minutes": 90}, {"from": "14:15", "to": "17:00", "minutes": 165}]
import asyncio
from datetime import datetime, timedelta, timezone

TZ = timezone(timedelta(hours=2))
DAY_START = datetime(2026, 9, 14, 9, 0, tzinfo=TZ)
DAY_END = datetime(2026, 9, 14, 17, 0, tzinfo=TZ)
MIN_SLOT = timedelta(minutes=30)

to_book = [("Review", 10, 0, 90), ("1:1", 13, 0, 45), ("Budget", 13, 30, 45)]


async def book(title: str, hour: int, minute: int, minutes: int) -> str:
    start = DAY_START.replace(hour=hour, minute=minute)
    created = await calendarCreateEvent(title, start.isoformat(), durationMinutes=minutes)
    return created["eventId"]


await asyncio.gather(*(book(*entry) for entry in to_book))

found = await calendarSearchEvents(
    startsFrom=DAY_START.isoformat(),
    startsBefore=DAY_END.isoformat(),
)

busy = sorted(
    (datetime.fromisoformat(e["startsAt"]).astimezone(TZ), datetime.fromisoformat(e["endsAt"]).astimezone(TZ))
    for e in found["events"]
)

slots: list[tuple[datetime, datetime]] = []
cursor = DAY_START
for start, end in busy:
    if start - cursor >= MIN_SLOT:
        slots.append((cursor, start))
    cursor = max(cursor, end)
if DAY_END - cursor >= MIN_SLOT:
    slots.append((cursor, DAY_END))

[
    {
        "from": f"{start:%H:%M}",
        "to": f"{end:%H:%M}",
        "minutes": int((end - start).total_seconds() / 60),
    }
    for start, end in slots
]
