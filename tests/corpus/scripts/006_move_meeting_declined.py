# task: Try to move "Board call" to an hour later; if the deletion is not approved, leave everything as it is and tell me why.
# answers: [{"approved": false, "comment": "The board has fixed this time"}]
# expects: {"moved": false, "why": "The board has fixed this time", "events": ["Board call"]}
from datetime import datetime, timedelta

created = await calendarCreateEvent("Board call", "2026-09-21T14:00:00+02:00", durationMinutes=60)
event_id = created["eventId"]

answer = await calendarDeleteEvent(eventId=event_id)
moved = False
if answer["deleted"]:
    later = datetime.fromisoformat("2026-09-21T14:00:00+02:00") + timedelta(hours=1)
    await calendarCreateEvent("Board call", later.isoformat(), durationMinutes=60)
    moved = True

page = await calendarSearchEvents()
{
    "moved": moved,
    "why": answer["comment"],
    "events": [e["title"] for e in page["events"]],
}
