# task: Parse these lines like "Mon 09:30-10:15 Standup @ Room 3" into records with the minutes.
# expects: [{"day": "Mon", "title": "Standup", "room": "Room 3", "minutes": 45}, {"day": "Tue", "title": "Jour fixe", "room": null, "minutes": 120}]
import re

TEXT = """
Mon 09:30-10:15 Standup @ Room 3
nonsense line
Tue 14:00-16:00 Jour fixe
"""

PATTERN = re.compile(
    r"^(?P<day>Mon|Tue|Wed|Thu|Fri) (?P<h1>\d\d):(?P<m1>\d\d)-(?P<h2>\d\d):(?P<m2>\d\d) (?P<title>[^@]+?)(?: @ (?P<room>.+))?$"
)

records = []
for line in TEXT.strip().splitlines():
    if (match := PATTERN.match(line)) is None:
        print(f"skipped: {line!r}")
        continue
    g = match.groupdict()
    minutes = (int(g["h2"]) * 60 + int(g["m2"])) - (int(g["h1"]) * 60 + int(g["m1"]))
    records.append({"day": g["day"], "title": g["title"], "room": g["room"], "minutes": minutes})

records
