# task: Import the calendar I uploaded and give me a summary: how many events, the first and the last, and total hours.
# inputs: {"ics": "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Example//EN\r\nX-WR-CALNAME:Team\r\nBEGIN:VEVENT\r\nUID:a1@example.com\r\nDTSTAMP:20260901T080000Z\r\nDTSTART:20260914T070000Z\r\nDTEND:20260914T080000Z\r\nSUMMARY:Kickoff\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:a2@example.com\r\nDTSTAMP:20260901T080000Z\r\nDTSTART:20260915T120000Z\r\nDTEND:20260915T133000Z\r\nSUMMARY:Design review\r\nLOCATION:Room 4\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:a3@example.com\r\nDTSTAMP:20260901T080000Z\r\nDTSTART:20260917T090000Z\r\nDTEND:20260917T110000Z\r\nSUMMARY:Workshop\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"}
# expects: {"calendar": "Team", "count": 3, "first": "Kickoff", "last": "Workshop", "hours": 4.5, "withLocation": ["Design review"]}
from datetime import datetime


def hours(start: str, end: str) -> float:
    delta = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return delta.total_seconds() / 3600


async def main() -> dict:
    imported = await calendarImportIcs(ics=ics)
    events = sorted(imported["events"], key=lambda e: datetime.fromisoformat(e["startsAt"]))
    print(f"Imported {imported['imported']} events ({imported['created']} new)")
    return {
        "calendar": imported["name"],
        "count": len(events),
        "first": events[0]["title"],
        "last": events[-1]["title"],
        "hours": round(sum(hours(e["startsAt"], e["endsAt"]) for e in events), 2),
        "withLocation": [e["title"] for e in events if e["location"]],
    }


await main()
