# task: Which of the imported events repeat, and which are cancelled or tentative?
# expects: {"recurring": {"Weekly": "WEEKLY"}, "byStatus": {"confirmed": ["Weekly"], "tentative": ["Maybe"], "cancelled": ["Off"]}}
import re

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Status//EN
BEGIN:VEVENT
UID:s1@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T080000Z
DTEND:20260914T090000Z
RRULE:FREQ=WEEKLY;COUNT=10
STATUS:CONFIRMED
SUMMARY:Weekly
END:VEVENT
BEGIN:VEVENT
UID:s2@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260915T080000Z
DTEND:20260915T090000Z
STATUS:TENTATIVE
SUMMARY:Maybe
END:VEVENT
BEGIN:VEVENT
UID:s3@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260916T080000Z
DTEND:20260916T090000Z
STATUS:CANCELLED
SUMMARY:Off
END:VEVENT
END:VCALENDAR
"""
await calendarImportIcs(ICS)
events = (await calendarSearchEvents(latestImport=True, limit=50))["events"]

recurring: dict[str, str] = {}
by_status: dict[str, list[str]] = {"confirmed": [], "tentative": [], "cancelled": []}
for event in events:
    by_status[event["status"]].append(event["title"])
    for rule in event["recurrence"]:
        if m := re.search(r"FREQ=([A-Z]+)", rule):
            recurring[event["title"]] = m[1]

{"recurring": recurring, "byStatus": by_status}
