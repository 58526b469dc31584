# task: List the all-day events of the imported calendar with the number of days they take.
# expects: [["Conference", 3], ["Public holiday", 1]]
from datetime import datetime

lines = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//AllDay//EN",
]
for uid, start, end, title in (
    ("d1", "20261003", "20261004", "Public holiday"),
    ("d2", "20261012", "20261015", "Conference"),
):
    lines.extend(
        [
            "BEGIN:VEVENT",
            f"UID:{uid}@example.com",
            "DTSTAMP:20260901T000000Z",
            f"DTSTART;VALUE=DATE:{start}",
            f"DTEND;VALUE=DATE:{end}",
            f"SUMMARY:{title}",
            "END:VEVENT",
        ]
    )
lines += [
    "BEGIN:VEVENT",
    "UID:d3@example.com",
    "DTSTAMP:20260901T000000Z",
    "DTSTART:20261013T080000Z",
    "DTEND:20261013T090000Z",
    "SUMMARY:Keynote",
    "END:VEVENT",
    "END:VCALENDAR",
]

imported = await calendarImportIcs("\r\n".join(lines) + "\r\n", timeZone="Europe/Berlin")
result = []
for e in imported["events"]:
    if not e["allDay"]:
        continue
    days = (datetime.fromisoformat(e["endsAt"]) - datetime.fromisoformat(e["startsAt"])).days
    result.append([e["title"], days])

sorted(result, key=lambda r: r[1], reverse=True)
