# task: Create a daily 20 minute "Stretching" event at 12:00 for the next ten working days from 14 September 2026 on.
# expects: {"created": 10, "distinctIds": 10, "last": "2026-09-25"}
import asyncio
from datetime import datetime, timedelta, timezone

cest = timezone(timedelta(hours=2))
day = datetime(2026, 9, 14, 12, 0, tzinfo=cest)
days: list[datetime] = []
while len(days) < 10:
    if day.weekday() < 5:
        days.append(day)
    day += timedelta(days=1)

created = await asyncio.gather(
    *(
        calendarCreateEvent(title="Stretching", startsAt=d.isoformat(), durationMinutes=20, timeZone="Europe/Berlin")
        for d in days
    )
)
ids = {c["eventId"] for c in created}

{"created": len(created), "distinctIds": len(ids), "last": days[-1].date().isoformat()}
