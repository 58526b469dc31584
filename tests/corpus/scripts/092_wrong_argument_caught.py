# task: Try to create an event with a start that has no offset; if that fails, add the offset +02:00 and try again.
async def create(start: str) -> str | None:
    try:
        created = await calendarCreateEvent(title="Visit", startsAt=start, durationMinutes=30)
    except RuntimeError as e:
        print(f"could not create the event: {e}")
        return None
    return created["eventId"]


start = "2026-09-14T09:00:00"
event_id = await create(start)
first_failed = event_id is None
if event_id is None:
    event_id = await create(start + "+02:00")

events = (await calendarSearchEvents(text="Visit"))["events"]
{"firstFailed": first_failed, "title": events[0]["title"] if events else None}
