# task: Try to import this broken file and explain what is wrong.
# expects: {"imported": false, "code": "calendar_invalid", "eventsAfter": 0}
broken = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Broken//EN
BEGIN:VEVENT
UID:x@example.com
DTSTART:not-a-date
SUMMARY:Broken
END:VEVENT
"""

try:
    await calendarImportIcs(ics=broken)
except RuntimeError as error:
    code, _, detail = str(error).partition(": ")
    print(detail)
    outcome = {"imported": False, "code": code}
else:
    outcome = {"imported": True, "code": None}

outcome | {"eventsAfter": len((await calendarSearchEvents())["events"])}
