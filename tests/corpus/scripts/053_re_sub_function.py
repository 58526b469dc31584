# task: Convert all times like 3:30pm in the text to 24 hours.
# expects: "Lunch at 12:15, call at 15:30, dinner at 19:00, breakfast at 08:05, and midnight at 00:00."
import re

text = "Lunch at 12:15pm, call at 3:30pm, dinner at 7:00 PM, breakfast at 8:05am, and midnight at 12:00 am."


def to_24h(match: re.Match[str]) -> str:
    hour, minute, half = int(match.group(1)), match.group(2), match.group(3).lower()
    if half == "pm" and hour != 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    return f"{hour:02d}:{minute}"


re.sub(r"\b(\d{1,2}):(\d{2})\s*([ap]m)\b", to_24h, text, flags=re.IGNORECASE)
