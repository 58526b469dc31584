# task: Are all my events shorter than two hours, is any of them at the office, and what is the first one after noon UTC?
# expects: {"allShort": true, "anyAtOffice": false, "firstAfterNoon": "Tea"}
import asyncio
from datetime import datetime, time, timedelta, timezone

await asyncio.gather(
    calendarCreateEvent("Breakfast", "2026-09-14T07:00:00+00:00", 30, location="Home"),
    calendarCreateEvent("Tea", "2026-09-14T15:00:00+00:00", 60),
    calendarCreateEvent("Cinema", "2026-09-14T18:00:00+00:00", 110, location="Odeon"),
)
events = (await calendarSearchEvents())["events"]


def span(e) -> timedelta:
    return datetime.fromisoformat(e["endsAt"]) - datetime.fromisoformat(e["startsAt"])


first_after_noon = next(
    (
        e["title"]
        for e in events
        if datetime.fromisoformat(e["startsAt"]).astimezone(timezone.utc).time() >= time(12, 0)
    ),
    None,
)
{
    "allShort": all(span(e) < timedelta(hours=2) for e in events),
    "anyAtOffice": any("office" in (e["location"] or "").lower() for e in events),
    "firstAfterNoon": first_after_noon,
}
