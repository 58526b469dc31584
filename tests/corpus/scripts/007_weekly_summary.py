# task: Import this calendar and give me a weekly overview by weekday with the number of events and total minutes.
# expects: {"Monday": {"events": 2, "minutes": 75}, "Wednesday": {"events": 1, "minutes": 120}, "Friday": {"events": 1, "minutes": 30}}
from collections import defaultdict
from datetime import datetime

def vevent(uid: str, start: str, end: str, title: str) -> str:
    return "\r\n".join(
        [
            "BEGIN:VEVENT",
            f"UID:{uid}@example.org",
            "DTSTAMP:20260901T000000Z",
            f"DTSTART:{start}",
            f"DTEND:{end}",
            f"SUMMARY:{title}",
            "END:VEVENT",
        ]
    )


rows = [
    ("w1", "20260914T070000Z", "20260914T071500Z", "Standup"),
    ("w2", "20260914T090000Z", "20260914T100000Z", "Planning"),
    ("w3", "20260916T120000Z", "20260916T140000Z", "Workshop"),
    ("w4", "20260918T130000Z", "20260918T133000Z", "Demo"),
]
ics = "\r\n".join(
    ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Example//EN", *[vevent(*row) for row in rows], "END:VCALENDAR", ""]
)

imported = await calendarImportIcs(ics=ics, name="Week 38")

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
per_day: dict[int, list[int]] = defaultdict(list)
for event in imported["events"]:
    start = datetime.fromisoformat(event["startsAt"])
    end = datetime.fromisoformat(event["endsAt"])
    per_day[start.weekday()].append(int((end - start).total_seconds() // 60))

{
    WEEKDAYS[day]: {"events": len(minutes), "minutes": sum(minutes)}
    for day, minutes in sorted(per_day.items())
}
