# task: Build a week plan from my events: per day a list and the total, using records.
# expects: {"2026-09-14": {"titles": ["Write", "Read"], "minutes": 150}, "2026-09-15": {"titles": ["Walk"], "minutes": 45}}
from dataclasses import dataclass, field
from datetime import datetime, timezone


@dataclass
class Day:
    titles: list[str] = field(default_factory=list)
    minutes: int = 0

    def add(self, title: str, minutes: int) -> None:
        self.titles.append(title)
        self.minutes += minutes


for title, start, length in [
    ("Write", "2026-09-14T08:00:00+00:00", 90),
    ("Read", "2026-09-14T13:00:00+00:00", 60),
    ("Walk", "2026-09-15T16:00:00+00:00", 45),
]:
    await calendarCreateEvent(title=title, startsAt=start, durationMinutes=length)

week: dict[str, Day] = {}
for event in (await calendarSearchEvents(limit=100))["events"]:
    start_time = datetime.fromisoformat(event["startsAt"]).astimezone(timezone.utc)
    end_time = datetime.fromisoformat(event["endsAt"]).astimezone(timezone.utc)
    day = week.setdefault(start_time.strftime("%Y-%m-%d"), Day())
    day.add(event["title"], (end_time - start_time).seconds // 60)

{key: {"titles": day.titles, "minutes": day.minutes} for key, day in week.items()}
