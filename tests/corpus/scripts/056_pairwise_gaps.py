# task: Create five events and give me the gaps between consecutive ones in minutes; which gap is the longest?
# expects: {"gaps": [15, 0, 120, 45], "longest": {"after": "C", "before": "D", "minutes": 120}}
import asyncio
from datetime import datetime
from itertools import pairwise

plan = [
    ("A", "2026-09-14T08:00:00+02:00", 30),
    ("B", "2026-09-14T08:45:00+02:00", 45),
    ("C", "2026-09-14T09:30:00+02:00", 30),
    ("D", "2026-09-14T12:00:00+02:00", 60),
    ("E", "2026-09-14T13:45:00+02:00", 15),
]
await asyncio.gather(*[calendarCreateEvent(t, s, durationMinutes=m) for t, s, m in plan])
events = (await calendarSearchEvents())["events"]

gaps = [
    {
        "after": a["title"],
        "before": b["title"],
        "minutes": int(
            (datetime.fromisoformat(b["startsAt"]) - datetime.fromisoformat(a["endsAt"])).total_seconds() // 60
        ),
    }
    for a, b in pairwise(events)
]
longest = max(gaps, key=lambda g: g["minutes"])
{"gaps": [g["minutes"] for g in gaps], "longest": longest}
