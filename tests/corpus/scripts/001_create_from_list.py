# task: Put these three meetings on my calendar and tell me the ids: standup Mon 9:00, planning Mon 10:00 (90 min), retro Fri 15:00 (week of 14 September 2026, Berlin).
import asyncio

meetings = [
    {"title": "Standup", "starts_at": "2026-09-14T09:00:00+02:00", "minutes": 15},
    {"title": "Planning", "starts_at": "2026-09-14T10:00:00+02:00", "minutes": 90},
    {"title": "Retro", "starts_at": "2026-09-18T15:00:00+02:00", "minutes": 60},
]

results = await asyncio.gather(
    *[
        calendarCreateEvent(
            title=m["title"],
            startsAt=m["starts_at"],
            durationMinutes=m["minutes"],
            timeZone="Europe/Berlin",
        )
        for m in meetings
    ]
)

{m["title"]: r["eventId"] for m, r in zip(meetings, results, strict=True)}
