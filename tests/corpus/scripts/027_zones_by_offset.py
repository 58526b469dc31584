# task: The call is at 16:00 in Berlin (UTC+2) on 14 September 2026; what time is it in New York, Tokyo and Kolkata? Also put it on the calendar.
# expects: {"Berlin": "Mon 16:00", "New York": "Mon 10:00", "Tokyo": "Mon 23:00", "Kolkata": "Mon 19:30"}
from datetime import datetime, timedelta, timezone

offsets = {
    "Berlin": timedelta(hours=2),
    "New York": timedelta(hours=-4),
    "Tokyo": timedelta(hours=9),
    "Kolkata": timedelta(hours=5, minutes=30),
}

call = datetime(2026, 9, 14, 16, 0, tzinfo=timezone(offsets["Berlin"]))
await calendarCreateEvent(
    title="International call",
    startsAt=call.isoformat(),
    durationMinutes=45,
    timeZone="Europe/Berlin",
)

{city: call.astimezone(timezone(offset)).strftime("%a %H:%M") for city, offset in offsets.items()}
