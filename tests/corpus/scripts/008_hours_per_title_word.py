# task: After importing my calendar, count the hours per word of the titles, most first.
# expects: [["review", 3.5], ["design", 2.0], ["code", 1.5], ["call", 0.5], ["sales", 0.5]]
import re
from collections import Counter
from datetime import datetime

ICS = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Example//Words//EN
BEGIN:VEVENT
UID:h1@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260914T080000Z
DTEND:20260914T100000Z
SUMMARY:Design review
END:VEVENT
BEGIN:VEVENT
UID:h2@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260915T080000Z
DTEND:20260915T093000Z
SUMMARY:Code Review!
END:VEVENT
BEGIN:VEVENT
UID:h3@example.com
DTSTAMP:20260901T000000Z
DTSTART:20260916T080000Z
DTEND:20260916T083000Z
SUMMARY:Sales call
END:VEVENT
END:VCALENDAR
"""

events = (await calendarImportIcs(ics=ICS))["events"]
hours: Counter[str] = Counter()
for e in events:
    duration = datetime.fromisoformat(e["endsAt"]) - datetime.fromisoformat(e["startsAt"])
    for word in set(re.findall(r"[a-z]+", e["title"].lower())):
        hours[word] += duration.total_seconds() / 3600  # type: ignore[assignment]

[[word, round(h, 2)] for word, h in sorted(hours.items(), key=lambda kv: (-kv[1], kv[0]))]
