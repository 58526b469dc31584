# task: Import the calendar, then a newer version of the file with a later time, and tell me what changed.
# expects: {"created": 1, "updated": 1, "before": "2026-09-14T08:00:00+00:00", "after": "2026-09-14T10:30:00+00:00", "shiftMinutes": 150}
from datetime import datetime, timezone


def calendar(start: str, end: str, sequence: int) -> str:
    return f"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Reimport//EN
BEGIN:VEVENT
UID:moving@example.com
SEQUENCE:{sequence}
DTSTAMP:2026090{sequence + 1}T000000Z
DTSTART:{start}
DTEND:{end}
SUMMARY:Moving target
END:VEVENT
END:VCALENDAR
"""


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(timezone.utc)


old = await calendarImportIcs(ics=calendar("20260914T080000Z", "20260914T090000Z", 0))
new = await calendarImportIcs(ics=calendar("20260914T103000Z", "20260914T113000Z", 1))

before = utc(old["events"][0]["startsAt"])
after = utc(new["events"][0]["startsAt"])
{
    "created": old["created"],
    "updated": new["updated"],
    "before": before.isoformat(),
    "after": after.isoformat(),
    "shiftMinutes": (after - before).total_seconds() // 60,
}
