# task: Create twelve events, then walk through the calendar in pages of five and return all titles in order.
# expects: {"pages": 3, "titles": ["Slot 01", "Slot 02", "Slot 03", "Slot 04", "Slot 05", "Slot 06", "Slot 07", "Slot 08", "Slot 09", "Slot 10", "Slot 11", "Slot 12"]}
import asyncio
from datetime import datetime, timedelta, timezone

base = datetime(2026, 10, 1, 8, 0, tzinfo=timezone.utc)
await asyncio.gather(
    *[
        calendarCreateEvent(title=f"Slot {i:02d}", startsAt=(base + timedelta(hours=i)).isoformat(), durationMinutes=30)
        for i in range(1, 13)
    ]
)


async def all_events(page_size: int):
    seen = set()
    collected = []
    starts_from = None
    pages = 0
    while True:
        page = await calendarSearchEvents(startsFrom=starts_from, limit=page_size)
        pages += 1
        for event in page["events"]:
            if event["eventId"] not in seen:
                seen.add(event["eventId"])
                collected.append(event)
        if not page["more"]:
            return pages, collected
        last = datetime.fromisoformat(page["events"][-1]["startsAt"])
        starts_from = (last + timedelta(seconds=1)).isoformat()


pages, events = await all_events(5)
{"pages": pages, "titles": [e["title"] for e in events]}
