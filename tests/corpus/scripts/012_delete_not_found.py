# task: Delete the event with the id evt_does_not_exist, and tell me plainly if there is none.
# answers: [{"approved": true}]
try:
    outcome = await calendarDeleteEvent(eventId="evt_does_not_exist")
    result = {"ok": outcome["deleted"], "error": None}
except RuntimeError as exc:
    code, _, message = str(exc).partition(":")
    print("Deletion failed:", message.strip())
    result = {"ok": False, "error": code}

result
