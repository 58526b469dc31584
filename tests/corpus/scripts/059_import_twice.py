# task: Import the same file twice and show that nothing is doubled.
# expects: {"firstCreated": 2, "secondCreated": 0, "total": 2}
ICS = "\r\n".join(
    [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Twice//EN",
        "BEGIN:VEVENT",
        "UID:t1@example.com",
        "DTSTAMP:20260901T000000Z",
        "DTSTART;VALUE=DATE:20261003",
        "DTEND;VALUE=DATE:20261004",
        "SUMMARY:Tag der Deutschen Einheit",
        "END:VEVENT",
        "BEGIN:VEVENT",
        "UID:t2@example.com",
        "DTSTAMP:20260901T000000Z",
        "DTSTART;TZID=Europe/Berlin:20261005T090000",
        "DTEND;TZID=Europe/Berlin:20261005T100000",
        "SUMMARY:Back to work",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    ]
)

first = await calendarImportIcs(ics=ICS)
second = await calendarImportIcs(ics=ICS)
everything = await calendarSearchEvents(limit=100)

print(f"second run: {second['updated']} updated, {second['unchanged']} unchanged")
{
    "firstCreated": first["created"],
    "secondCreated": second["created"],
    "total": len(everything["events"]),
}
