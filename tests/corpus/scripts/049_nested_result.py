# task: Import the calendar and return a nested report by month and title.
# expects: {"2026-09": {"Standup": 2, "Review": 1}, "2026-10": {"Standup": 1}}
from datetime import datetime

HEAD = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Nested//EN\r\n"
TAIL = "END:VCALENDAR\r\n"
EVENT = (
    "BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20260901T000000Z\r\nDTSTART:{start}\r\n"
    "DURATION:PT30M\r\nSUMMARY:{title}\r\nEND:VEVENT\r\n"
)

data = [
    ("20260914T080000Z", "Standup"),
    ("20260915T080000Z", "Standup"),
    ("20260915T100000Z", "Review"),
    ("20261001T080000Z", "Standup"),
]
ics = HEAD + "".join(EVENT.format(uid=f"n{i}@x", start=s, title=t) for i, (s, t) in enumerate(data)) + TAIL

imported = await calendarImportIcs(ics=ics)
report: dict[str, dict[str, int]] = {}
for e in sorted(imported["events"], key=lambda e: e["startsAt"]):
    month = datetime.fromisoformat(e["startsAt"]).strftime("%Y-%m")
    titles = report.setdefault(month, {})
    titles[e["title"]] = titles.get(e["title"], 0) + 1

report
