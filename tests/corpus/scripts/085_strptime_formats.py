# task: Read these differently written dates and normalise them to ISO; report those that cannot be read.
# expects: {"parsed": {"14.09.2026": "2026-09-14", "Sep 15, 2026": "2026-09-15", "2026/09/16": "2026-09-16"}, "unreadable": ["next week"]}
from datetime import datetime

FORMATS = ("%d.%m.%Y", "%b %d, %Y", "%Y/%m/%d")
raw_dates = ["14.09.2026", "Sep 15, 2026", "2026/09/16", "next week"]


def parse(text: str) -> datetime | None:
    for fmt in FORMATS:
        try:
            return datetime.strptime(text, fmt)
        except ValueError:
            continue
    return None


parsed: dict[str, str] = {}
unreadable: list[str] = []
for raw in raw_dates:
    if (moment := parse(raw)) is not None:
        parsed[raw] = moment.date().isoformat()
    else:
        unreadable.append(raw)

{"parsed": parsed, "unreadable": unreadable}
