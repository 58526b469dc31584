# task: I'm late: shift all my events on 14 September 2026 after 12:00 UTC by 45 minutes; ask me for each and report the new plan.
# answers: [{"approved": true}, {"approved": false, "comment": "The client can't"}]
# expects: {"shifted": 1, "kept": ["Client call"], "plan": ["09:00 Standup", "12:45 Lunch", "14:00 Client call"]}
from datetime import datetime, timedelta, timezone

UTC = timezone.utc
SHIFT = timedelta(minutes=45)

for title, hour in (("Standup", 9), ("Lunch", 12), ("Client call", 14)):
    await calendarCreateEvent(
        title=title,
        startsAt=datetime(2026, 9, 14, hour, tzinfo=UTC).isoformat(),
        durationMinutes=30,
        timeZone="UTC",
    )

day_end = datetime(2026, 9, 15, tzinfo=UTC)
noon = datetime(2026, 9, 14, 12, tzinfo=UTC)
afternoon = await calendarSearchEvents(startsFrom=noon.isoformat(), startsBefore=day_end.isoformat())

shifted = 0
kept = []
for e in afternoon["events"]:
    answer = await calendarDeleteEvent(e["eventId"])
    if not answer["deleted"]:
        print(f"{e['title']} stays: {answer['comment']}")
        kept.append(e["title"])
        continue
    start = datetime.fromisoformat(e["startsAt"])
    minutes = (datetime.fromisoformat(e["endsAt"]) - start) // timedelta(minutes=1)
    await calendarCreateEvent(
        title=e["title"],
        startsAt=(start + SHIFT).isoformat(),
        durationMinutes=minutes,
        timeZone=e["timeZone"],
    )
    shifted += 1

final = await calendarSearchEvents(startsBefore=day_end.isoformat())
plan = [f"{datetime.fromisoformat(e['startsAt']).astimezone(UTC):%H:%M} {e['title']}" for e in final["events"]]
{"shifted": shifted, "kept": kept, "plan": plan}
