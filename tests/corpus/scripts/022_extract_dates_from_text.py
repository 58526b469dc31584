# task: Find all dates in the message and create an event for each.
# inputs: {"message": "Hi! The offsite is on 2026-10-05, the follow-up on 12.10.2026 and the party on 24/12/2026. Call 030-123456."}
# expects: ["2026-10-05", "2026-10-12", "2026-12-24"]
import asyncio
import re
from datetime import date

iso = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
european = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")

dates: list[date] = []
for m in iso.finditer(message):
    dates.append(date(int(m.group(1)), int(m.group(2)), int(m.group(3))))
for m in european.finditer(message):
    d, month, y = map(int, m.groups())
    dates.append(date(y, month, d))

dates.sort()
await asyncio.gather(
    *[calendarCreateEvent(title="From message", startsAt=f"{d.isoformat()}T09:00:00+02:00") for d in dates]
)

[d.isoformat() for d in dates]
