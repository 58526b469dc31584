# task: Import my calendar and list all pairs of events that overlap.
# expects: {"clashes": [{"first": "Team sync", "second": "Dentist", "overlapMinutes": 30}, {"first": "Lunch", "second": "Call with Anna", "overlapMinutes": 15}], "count": 2}
from datetime import datetime, timedelta
from itertools import combinations

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Example//EN
BEGIN:VEVENT
UID:1@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T080000Z
DTEND:20260914T090000Z
SUMMARY:Team sync
END:VEVENT
BEGIN:VEVENT
UID:2@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T083000Z
DTEND:20260914T093000Z
SUMMARY:Dentist
END:VEVENT
BEGIN:VEVENT
UID:3@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T100000Z
DTEND:20260914T110000Z
SUMMARY:Lunch
END:VEVENT
BEGIN:VEVENT
UID:4@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T104500Z
DTEND:20260914T120000Z
SUMMARY:Call with Anna
END:VEVENT
BEGIN:VEVENT
UID:5@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T120000Z
DTEND:20260914T130000Z
SUMMARY:Focus
END:VEVENT
END:VCALENDAR
"""

result = await calendarImportIcs(ics=ICS)
events = sorted(result["events"], key=lambda e: e["startsAt"])

clashes = []
for a, b in combinations(events, 2):
    start = max(datetime.fromisoformat(a["startsAt"]), datetime.fromisoformat(b["startsAt"]))
    end = min(datetime.fromisoformat(a["endsAt"]), datetime.fromisoformat(b["endsAt"]))
    overlap = end - start
    if overlap > timedelta(0):
        clashes.append(
            {
                "first": a["title"],
                "second": b["title"],
                "overlapMinutes": int(overlap.total_seconds() // 60),
            }
        )

{"clashes": clashes, "count": len(clashes)}
