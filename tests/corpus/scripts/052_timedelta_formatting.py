# task: How long is it from the kickoff to the launch? In days, hours and minutes, and as a text.
# expects: {"days": 17, "hours": 3, "minutes": 45, "text": "17 days, 3:45:00", "weeks": 2.5}
from datetime import datetime

kickoff = datetime.fromisoformat("2026-09-14T09:00:00+02:00")
launch = datetime.fromisoformat("2026-10-01T10:45:00+00:00")

delta = launch - kickoff
hours, rest = divmod(delta.seconds, 3600)
minutes = rest // 60

{
    "days": delta.days,
    "hours": hours,
    "minutes": minutes,
    "text": str(delta),
    "weeks": round(delta.total_seconds() / (7 * 24 * 3600), 1),
}
