# task: Create three events with places and notes, then find those that mention "Anna" anywhere.
# expects: ["Coffee", "Handover"]
import asyncio

events = [
    dict(title="Coffee", startsAt="2026-09-14T08:00:00+02:00", location="At Anna's"),
    dict(title="Handover", startsAt="2026-09-15T08:00:00+02:00", description="Bring the keys for ANNA"),
    dict(title="Gym", startsAt="2026-09-16T08:00:00+02:00"),
]
await asyncio.gather(*[calendarCreateEvent(**e) for e in events])
found = await calendarSearchEvents(text="anna")
[e["title"] for e in found["events"]]
