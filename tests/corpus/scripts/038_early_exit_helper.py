# task: Find my next event called "Holiday"; if there is none, say so.
# expects: {"found": false, "message": "There is no event called 'Holiday'."}
from datetime import datetime, timezone


async def find_next(title: str) -> dict[str, object]:
    result = await calendarSearchEvents(text=title, limit=1)
    if not result["events"]:
        return {"found": False, "message": f"There is no event called {title!r}."}

    event = result["events"][0]
    start = datetime.fromisoformat(event["startsAt"])
    if event["allDay"]:
        return {"found": True, "message": f"{event['title']} on {start:%d.%m.%Y} (all day)"}

    return {"found": True, "message": f"{event['title']} at {start.astimezone(timezone.utc):%d.%m.%Y %H:%M} UTC"}


await find_next("Holiday")
