"""What a model does with the demo's calendar, call by call or as a script: import a file, add an event, delete clashes.

A calendar without events in that week has no clash.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from grundlag_bus.agent import ModelReply, ModelRequest, Prompt, Returned, ToolCall

REVIEW = {
    "title": "Review",
    "startsAt": "2026-09-18T14:30:00+02:00",
    "durationMinutes": 60,
    "timeZone": "Europe/Berlin",
}


SCRIPT = f"""
import asyncio
from itertools import pairwise

imported, review = await asyncio.gather(calendarImportIcs(ics), calendarCreateEvent(**{REVIEW!r}))
found = await calendarSearchEvents(startsFrom="2026-09-14T00:00:00Z")
clashing = [late for early, late in pairwise(found["events"]) if late["startsAt"] < early["endsAt"]]
for event in clashing:
    print(event["title"], "begins before the event in front of it has ended.")
deleted = await asyncio.gather(*[calendarDeleteEvent(event["eventId"]) for event in clashing])
{{"imported": imported["imported"], "clashes": len(clashing), "deleted": sum(one["deleted"] for one in deleted)}}
"""
"""The same as a script, whose input is `ics`: what a model writes that is shown the functions instead of the calls."""


def calendar_model(ics: str) -> Callable[[ModelRequest], ModelReply | str]:
    """Make the model's part: it looks at nothing but what it is told."""

    def reply(request: ModelRequest) -> ModelReply | str:
        match request.messages[-1]:
            case Prompt():
                return _calling(("calendarImportIcs", {"ics": ics}), ("calendarCreateEvent", REVIEW))
            case Returned(name="calendarCreateEvent"):
                return _calling(("calendarSearchEvents", {"startsFrom": "2026-09-14T00:00:00Z"}))
            case Returned(name="calendarSearchEvents", text=text):
                return _calling(*(("calendarDeleteEvent", {"eventId": late["eventId"]}) for late in _clashing(text)))
            case Returned(text=text):
                return f"Deleted: {json.loads(text)['deleted']}."
        raise AssertionError(request.messages[-1])

    return reply


def _clashing(found: str) -> list[dict[str, Any]]:
    """Find the events that begin before the one in front of them has ended."""
    return [late for early, late in pairwise(json.loads(found)["events"]) if late["startsAt"] < early["endsAt"]]


def _calling(*wanted: tuple[str, Any]) -> ModelReply:
    return ModelReply(calls=tuple(ToolCall.of(name, arguments) for name, arguments in wanted))
