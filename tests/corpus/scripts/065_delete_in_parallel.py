# task: Clear my Friday: delete all events on 18 September 2026 at once.
# answers: [{"approved": true}, {"approved": true}, {"approved": true}]
# expects: {"asked": 3, "deleted": 3, "left": ["Thursday talk"]}
import asyncio


async def main() -> dict[str, object]:
    await asyncio.gather(
        calendarCreateEvent("Thursday talk", "2026-09-17T10:00:00+02:00"),
        calendarCreateEvent("Breakfast", "2026-09-18T08:00:00+02:00"),
        calendarCreateEvent("Demo", "2026-09-18T11:00:00+02:00"),
        calendarCreateEvent("Drinks", "2026-09-18T17:00:00+02:00"),
    )
    friday = await calendarSearchEvents(
        startsFrom="2026-09-18T00:00:00+02:00",
        startsBefore="2026-09-19T00:00:00+02:00",
    )
    answers = await asyncio.gather(*[calendarDeleteEvent(e["eventId"]) for e in friday["events"]])
    rest = await calendarSearchEvents()
    return {
        "asked": len(answers),
        "deleted": sum(a["deleted"] for a in answers),
        "left": [e["title"] for e in rest["events"]],
    }


await main()
