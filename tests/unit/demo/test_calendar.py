from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from grundlag_bus import (
    ActionFailed,
    ActionInputValidationError,
    DatabaseService,
    ItemStore,
    ToolContext,
    ToolInterrupt,
    connect,
    testing,
)
from grundlag_bus.demo import registry, sample_calendar
from grundlag_bus.demo.calendar_actions import calendar, create_event, search_events
from grundlag_bus.demo.calendar_models import CreateEvent, SearchEvents
from grundlag_bus.demo.ics import parse_ics

if TYPE_CHECKING:
    from pathlib import Path

    from grundlag_bus import Tool
    from grundlag_bus.demo.parsed import ParsedCalendar

Tools = dict[str, "Tool"]

ADA = ToolContext(user_id="ada")
LUNCH = {"title": "Lunch", "startsAt": "2026-09-14T12:00:00+02:00", "timeZone": "Europe/Berlin"}


def file_of(*events: tuple[str, str, str]) -> dict[str, str]:
    """Make a calendar file of (UID, start, title)."""
    lines = [f"BEGIN:VEVENT\nUID:{uid}\nDTSTART:{start}\nSUMMARY:{title}\nEND:VEVENT\n" for uid, start, title in events]
    return {"ics": f"BEGIN:VCALENDAR\n{''.join(lines)}END:VCALENDAR\n"}


async def found(tools: Tools, context: ToolContext = ADA, **wanted: Any) -> list[str]:
    result = await tools["calendarSearchEvents"].execute(wanted, context)
    return [event["title"] for event in result["events"]]


# --- creating and searching -------------------------------------------------------------------------------------------


async def test_a_created_event_is_found_with_all_that_it_was_given(tools: Tools) -> None:
    created = await tools["calendarCreateEvent"].execute({**LUNCH, "location": "Mensa"}, ADA)
    result = await tools["calendarSearchEvents"].execute({}, ADA)
    assert result == {
        "events": [
            {
                "eventId": created["eventId"],
                "title": "Lunch",
                "startsAt": "2026-09-14T10:00:00Z",
                "endsAt": "2026-09-14T10:30:00Z",
                "allDay": False,
                "timeZone": "Europe/Berlin",
                "localStart": "2026-09-14T12:00:00+02:00",
                "location": "Mensa",
                "description": None,
                "recurrence": [],
                "status": "confirmed",
                "version": 1,
            }
        ],
        "more": False,
    }


async def test_creating_tells_who_listens() -> None:
    async with connect(registry()) as bus, bus.events("calendar.*") as events:
        reply = await bus.call("calendarCreateEvent", LUNCH, ADA)
        event = await anext(events)
    assert (event.key, event.user_id, event.call_id) == ("calendar.eventCreated", "ada", reply.call_id)
    assert event.data["title"] == "Lunch"


async def test_creating_emits_an_item(tools: Tools) -> None:
    items = ItemStore()
    created = await tools["calendarCreateEvent"].execute(LUNCH, ToolContext(items=items))
    assert [item.data for item in items] == [
        {"eventId": created["eventId"], "title": "Lunch", "startsAt": "2026-09-14T10:00:00Z"}
    ]


async def test_a_repeated_delivery_of_a_call_creates_one_event(tmp_path: Path) -> None:
    async with DatabaseService.in_directory(tmp_path) as databases:
        services: dict[type, Any] = {DatabaseService: databases}
        lunch = CreateEvent.model_validate(LUNCH)
        created = [await create_event.execute(lunch, testing.context(services=services, call_id="c1")) for _ in "12"]
        another = await create_event.execute(lunch, testing.context(services=services, call_id="c2"))
        assert created[0] == created[1] != another
        assert len((await search_events.execute(SearchEvents(), testing.context(services=services))).events) == 2


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"title": ""}, ("title",)),
        ({"startsAt": "2026-09-14T12:00:00"}, ("startsAt",)),
        ({"startsAt": "9999-12-31T23:59:59Z"}, ("startsAt",)),
        ({"startsAt": "0001-01-01T00:00:00+14:00"}, ("startsAt",)),
        ({"durationMinutes": 0}, ("durationMinutes",)),
        ({"timeZone": "Europe/Atlantis"}, ("timeZone",)),
        ({"starts_at": "2026-09-14T12:00:00Z"}, ("starts_at",)),
    ],
)
async def test_an_event_that_cannot_be_is_refused_at_its_field(
    tools: Tools, changed: dict[str, Any], path: tuple[str, ...]
) -> None:
    with pytest.raises(ActionInputValidationError) as caught:
        await tools["calendarCreateEvent"].execute(LUNCH | changed, ADA)
    issue = caught.value.issues[0]
    assert issue.path == path or path[0] in issue.message
    assert await found(tools) == []


async def test_a_calendar_belongs_to_its_user(tools: Tools) -> None:
    created = await tools["calendarCreateEvent"].execute(LUNCH, ADA)
    for other in (ToolContext(user_id="bob"), ToolContext()):
        assert await found(tools, other) == []
        with pytest.raises(ActionFailed, match="no event"):
            await tools["calendarDeleteEvent"].execute({"eventId": created["eventId"]}, other)


async def test_events_are_found_by_text_and_start_in_order(tools: Tools) -> None:
    await tools["calendarImportIcs"].execute(
        file_of(
            ("1", "20260916T100000Z", "Übung C"), ("2", "20260914", "übung A_%"), ("3", "20260915T100000Z", "Rest")
        ),
        ADA,
    )
    assert await found(tools) == ["übung A_%", "Rest", "Übung C"]
    assert await found(tools, text="ÜBUNG") == ["übung A_%", "Übung C"]
    assert await found(tools, text="_%") == ["übung A_%"]
    assert await found(tools, startsFrom="2026-09-15T10:00:00Z") == ["Rest", "Übung C"]
    assert await found(tools, startsBefore="2026-09-15T12:00:00+02:00") == ["übung A_%"]


async def test_a_search_says_that_there_is_more_than_its_limit(tools: Tools) -> None:
    await tools["calendarImportIcs"].execute(file_of(("1", "20260914", "A"), ("2", "20260915", "B")), ADA)
    assert (await tools["calendarSearchEvents"].execute({"limit": 1}, ADA))["more"]
    assert not (await tools["calendarSearchEvents"].execute({"limit": 2}, ADA))["more"]


async def test_a_search_returns_no_more_than_fits_into_a_reply(tools: Tools) -> None:
    awkward = "\x01" * 3_000  # six bytes each as JSON
    event = f"DTSTART:20260914\nSUMMARY:A\nDESCRIPTION:{awkward}\nRRULE;X-Y={'b' * 15_000}:FREQ=DAILY\nEND:VEVENT\n"
    events = [f"BEGIN:VEVENT\nUID:{number}\n{event}" for number in range(60)]
    imported = await tools["calendarImportIcs"].execute(
        {"ics": file_of()["ics"].replace("END:", "".join(events) + "END:")}, ADA
    )
    result = await tools["calendarSearchEvents"].execute({"limit": 100}, ADA)
    assert imported["imported"] == 60
    assert 20 < len(result["events"]) < 60
    assert result["more"]


# --- importing --------------------------------------------------------------------------------------------------------


async def test_the_shipped_week_is_imported(tools: Tools) -> None:
    items = ItemStore()
    result = await tools["calendarImportIcs"].execute({"ics": sample_calendar()}, ToolContext(items=items))
    events = result.pop("events")
    import_id = result.pop("importId")
    assert result == {"name": "A week in September", "imported": 6, "created": 6, "updated": 0, "unchanged": 0}
    assert [event["title"] for event in events][:2] == ["Stand-up", "Dentist"]
    assert events[0]["recurrence"] == [
        "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
        "EXDATE;TZID=Europe/Berlin:20260917T091500",
    ]
    assert [(item.type, item.data) for item in items] == [("calendarImport", {**result, "importId": import_id})]


async def test_importing_again_updates_and_keeps_ids(tools: Tools) -> None:
    first = await tools["calendarImportIcs"].execute(file_of(("a", "20260914", "A"), ("b", "20260915", "B")), ADA)
    again = await tools["calendarImportIcs"].execute(
        file_of(("a", "20260914", "A"), ("b", "20260916", "B2"), ("c", "20260917", "C")), ADA
    )
    assert {name: again[name] for name in ("imported", "created", "updated", "unchanged")} == {
        "imported": 3,
        "created": 1,
        "updated": 1,
        "unchanged": 1,
    }
    assert [event["eventId"] for event in again["events"]][:2] == [event["eventId"] for event in first["events"]]
    assert [event["version"] for event in again["events"]] == [1, 2, 1]


async def test_an_import_is_all_or_nothing(tools: Tools) -> None:
    bad = file_of(("a", "20260914", "A"), ("b", "20260230", "B"))
    with pytest.raises(ActionFailed) as caught:
        await tools["calendarImportIcs"].execute(bad, ADA)
    assert (caught.value.code, caught.value.retryable) == ("calendar_invalid", False)
    assert caught.value.details == {"line": 9, "event": 2, "property": "DTSTART"}
    assert await found(tools) == []


async def test_a_missing_icalendar_is_told_with_what_to_do(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grundlag_bus.demo.ics", None)
    with pytest.raises(ActionFailed, match=r"pip install 'grundlag-bus\[demo\]'"):
        await tools["calendarImportIcs"].execute({"ics": sample_calendar()}, ADA)


async def test_floating_times_take_the_zone_of_the_input(tools: Tools) -> None:
    given = file_of(("a", "20260914T100000", "A")) | {"timeZone": "Asia/Tokyo", "name": "Trip"}
    result = await tools["calendarImportIcs"].execute(given, ADA)
    assert result["name"] == "Trip"
    assert result["events"][0]["localStart"] == "2026-09-14T10:00:00+09:00"


async def test_a_search_may_keep_to_the_latest_import_of_the_conversation(tools: Tools) -> None:
    context = ToolContext(user_id="ada", items=ItemStore())
    with pytest.raises(ActionFailed, match="call importIcs first"):
        await found(tools, context, latestImport=True)
    await tools["calendarImportIcs"].execute(file_of(("a", "20260914", "A")), context)
    await tools["calendarImportIcs"].execute(file_of(("b", "20260914", "B")), context)
    assert await found(tools, context, latestImport=True) == ["B"]
    assert await found(tools, context) == ["A", "B"]


async def test_a_file_is_parsed_beside_the_loop(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def watched(text: str, *, floating: str | None) -> ParsedCalendar:
        threads.append(threading.current_thread())
        return parse_ics(text, floating=floating)

    monkeypatch.setattr("grundlag_bus.demo.ics.parse_ics", watched)
    await tools["calendarImportIcs"].execute(file_of(("a", "20260914", "A")), ADA)
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_a_large_import_lists_its_beginning(tools: Tools) -> None:
    many = file_of(*((str(number), f"20260914T10{number // 60:02}{number % 60:02}Z", "A") for number in range(150)))
    result = await tools["calendarImportIcs"].execute(many, ADA)
    assert (result["imported"], len(result["events"])) == (150, 100)
    assert result["events"][99]["startsAt"] == "2026-09-14T10:01:39Z"


async def test_two_imports_at_once_count_right(tools: Tools) -> None:
    given = file_of(*((str(number), "20260914", "A") for number in range(50)))
    results = await asyncio.gather(*(tools["calendarImportIcs"].execute(given, ADA) for _ in range(4)))
    assert sum(result["created"] for result in results) == 50
    assert sum(result["unchanged"] for result in results) == 150


# --- deleting ---------------------------------------------------------------------------------------------------------


async def ask_to_delete(tools: Tools, event_id: str) -> ToolInterrupt:
    with pytest.raises(ToolInterrupt) as caught:
        await tools["calendarDeleteEvent"].execute({"eventId": event_id}, ADA)
    return caught.value


async def answer(tools: Tools, interrupt: ToolInterrupt, **given: Any) -> Any:
    return await tools["calendarDeleteEvent"].resume(interrupt, given, ADA)


async def test_a_deletion_asks_first_and_shows_the_event(tools: Tools) -> None:
    created = await tools["calendarCreateEvent"].execute(LUNCH, ADA)
    interrupt = await ask_to_delete(tools, created["eventId"])
    assert interrupt.message == 'Delete "Lunch" (2026-09-14T12:00:00+02:00)?'
    assert interrupt.data["event"]["title"] == "Lunch"
    assert interrupt.answer_schema is not None
    assert set(interrupt.answer_schema["properties"]) == {"approved", "comment"}
    assert await found(tools) == ["Lunch"]


async def test_an_approved_deletion_deletes_and_may_be_answered_again(tools: Tools) -> None:
    event_id = (await tools["calendarCreateEvent"].execute(LUNCH, ADA))["eventId"]
    interrupt = await ask_to_delete(tools, event_id)
    done = {"eventId": event_id, "deleted": True, "comment": None}
    assert await answer(tools, interrupt, approved=True) == done
    assert await found(tools) == []
    assert await answer(tools, interrupt, approved=True) == done


async def test_a_rejected_deletion_keeps_the_event(tools: Tools) -> None:
    event_id = (await tools["calendarCreateEvent"].execute(LUNCH, ADA))["eventId"]
    interrupt = await ask_to_delete(tools, event_id)
    kept = {"eventId": event_id, "deleted": False, "comment": "I am hungry"}
    assert await answer(tools, interrupt, approved=False, comment="I am hungry") == kept
    assert await found(tools) == ["Lunch"]


async def test_an_event_that_changed_after_the_question_is_kept(tools: Tools) -> None:
    imported = await tools["calendarImportIcs"].execute(file_of(("a", "20260914", "A")), ADA)
    interrupt = await ask_to_delete(tools, imported["events"][0]["eventId"])
    await tools["calendarImportIcs"].execute(file_of(("a", "20260914", "A, moved")), ADA)
    with pytest.raises(ActionFailed) as caught:
        await answer(tools, interrupt, approved=True)
    assert caught.value.code == "event_changed"
    assert await found(tools) == ["A, moved"]


async def test_an_event_that_came_back_after_its_deletion_is_kept(tools: Tools) -> None:
    given = file_of(("a", "20260914", "A"))
    imported = await tools["calendarImportIcs"].execute(given, ADA)
    interrupt = await ask_to_delete(tools, imported["events"][0]["eventId"])
    await answer(tools, interrupt, approved=True)
    await tools["calendarImportIcs"].execute(given, ADA)
    with pytest.raises(ActionFailed, match="changed after its deletion was asked for"):
        await answer(tools, interrupt, approved=True)
    assert await found(tools) == ["A"]


async def test_an_import_that_changes_nothing_does_not_void_the_question(tools: Tools) -> None:
    given = file_of(("a", "20260914", "A"))
    imported = await tools["calendarImportIcs"].execute(given, ADA)
    interrupt = await ask_to_delete(tools, imported["events"][0]["eventId"])
    await tools["calendarImportIcs"].execute(given, ADA)
    assert (await answer(tools, interrupt, approved=True))["deleted"]


# --- what the provider says of itself ---------------------------------------------------------------------------------


async def test_every_field_of_every_action_is_described() -> None:
    for action in calendar.to_manifest().actions:
        assert action.description
        for schema in (action.input, action.output, action.answer):
            for name, field in (schema or {}).get("properties", {}).items():
                assert field.get("description"), f"{action.id}: {name}"


async def test_the_manifest_has_the_entity_the_event_and_what_a_search_reads() -> None:
    manifest = calendar.to_manifest()
    assert [entity.id for entity in manifest.entities] == ["calendarEvent"]
    assert [event.id for event in manifest.events] == ["eventCreated"]
    assert {action.id: action.reads for action in manifest.actions if action.reads} == {
        "searchEvents": ("calendarImport",)
    }


async def test_events_outlive_the_process(tmp_path: Path) -> None:
    async with registry(tmp_path) as first:
        await (await first.to_tools())["calendarCreateEvent"].execute(LUNCH, ADA)
    async with registry(tmp_path) as second:
        assert await found(await second.to_tools()) == ["Lunch"]
