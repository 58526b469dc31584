# task: Create the meeting "Budget review" for Tuesday 10:00 and then move it to Wednesday at the same time.
# answers: [{"approved": true}]
# expects: {"moved": true, "title": "Budget review", "to": "2026-09-16T10:00:00+02:00", "remaining": 1}
from datetime import datetime, timedelta

await calendarCreateEvent(
    title="Budget review",
    startsAt="2026-09-15T10:00:00+02:00",
    durationMinutes=45,
    timeZone="Europe/Berlin",
    location="Room 2",
)


async def main():
    found = await calendarSearchEvents(text="budget review")
    if not found["events"]:
        return {"moved": False, "reason": "not found"}

    event = found["events"][0]
    start = datetime.fromisoformat("2026-09-15T10:00:00+02:00")
    duration = datetime.fromisoformat(event["endsAt"]) - datetime.fromisoformat(event["startsAt"])
    new_start = start + timedelta(days=1)

    deletion = await calendarDeleteEvent(event["eventId"])
    if not deletion["deleted"]:
        return {"moved": False, "reason": deletion["comment"] or "declined"}

    await calendarCreateEvent(
        title=event["title"],
        startsAt=new_start.isoformat(),
        durationMinutes=int(duration.total_seconds() // 60),
        timeZone=event["timeZone"],
        location=event["location"],
        description=event["description"],
    )
    check = await calendarSearchEvents(text="Budget review")
    return {
        "moved": True,
        "title": event["title"],
        "to": new_start.isoformat(),
        "remaining": len(check["events"]),
    }


await main()
