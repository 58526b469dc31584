# task: Which locations do I use most? Create the events below and give me the top two.
# expects: {"top": [["Room 1", 3], ["Online", 2]], "distinct": 3}
import asyncio
from collections import Counter

locations = ["Room 1", "Online", "Room 1", "Cafeteria", "Online", "Room 1"]
await asyncio.gather(
    *[
        calendarCreateEvent(
            title=f"Meeting {n}",
            startsAt=f"2026-09-{13 + n:02}T10:00:00+02:00",
            location=place,
        )
        for n, place in enumerate(locations, start=1)
    ]
)

found = await calendarSearchEvents(text="meeting", limit=100)
counts = Counter(e["location"] for e in found["events"] if e["location"] is not None)
{"top": [list(pair) for pair in counts.most_common(2)], "distinct": len(counts)}
