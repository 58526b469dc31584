# task: Here is a CSV of appointments; create one event for each valid row and tell me which rows were wrong.
# expects: {"created": ["Dentist", "Car service"], "errors": ["row 3: no title", "row 4: bad duration 'abc'"]}
import csv

csv_text = """title,start,minutes
Dentist,2026-09-14T08:00:00+02:00,30
,2026-09-14T10:00:00+02:00,30
Haircut,2026-09-15T10:00:00+02:00,abc
Car service,2026-09-16T07:30:00+02:00,90
"""

created, errors = [], []
reader = csv.DictReader(csv_text.splitlines())
for number, row in enumerate(reader, start=2):
    if not row["title"].strip():
        errors.append(f"row {number}: no title")
        continue
    try:
        minutes = int(row["minutes"])
    except ValueError:
        errors.append(f"row {number}: bad duration {row['minutes']!r}")
        continue
    await calendarCreateEvent(title=row["title"], startsAt=row["start"], durationMinutes=minutes)
    created.append(row["title"])

{"created": created, "errors": errors}
