# task: Remove all events with "draft" in their title, one by one, and tell me which were kept and why.
# answers: [{"approved": true}, {"approved": false, "comment": "Still needed"}, {"approved": true}]
# expects: {"deleted": ["Draft A", "Draft C"], "kept": {"Draft B": "Still needed"}, "left": ["Draft B", "Final"]}
starts = {
    "Draft A": "2026-09-14T09:00:00+02:00",
    "Draft B": "2026-09-15T09:00:00+02:00",
    "Draft C": "2026-09-16T09:00:00+02:00",
    "Final": "2026-09-17T09:00:00+02:00",
}
for title, start in starts.items():
    await calendarCreateEvent(title=title, startsAt=start)

drafts = (await calendarSearchEvents(text="draft"))["events"]

deleted: list[str] = []
kept: dict[str, str | None] = {}
for event in drafts:
    answer = await calendarDeleteEvent(eventId=event["eventId"])
    if answer["deleted"]:
        deleted.append(event["title"])
    else:
        kept[event["title"]] = answer["comment"]

left = [e["title"] for e in (await calendarSearchEvents())["events"]]
{"deleted": deleted, "kept": kept, "left": left}
