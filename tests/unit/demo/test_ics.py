from __future__ import annotations

import gc
import tracemalloc
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grundlag_bus import ActionFailed, GrundlagError
from grundlag_bus.demo import sample_calendar
from grundlag_bus.demo.ics import CalendarInvalidError, decode_ics, parse_ics

if TYPE_CHECKING:
    from grundlag_bus.demo.parsed import ParsedEvent

FILES = Path(__file__).parents[2] / "data" / "calendars"


def read(name: str) -> str:
    return decode_ics((FILES / name).read_bytes())


def calendar_of(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", *lines, "END:VCALENDAR", ""])


def event_of(*lines: str) -> str:
    return calendar_of("BEGIN:VEVENT", *lines, "END:VEVENT")


def only(text: str, *, floating: str | None = None) -> ParsedEvent:
    (event,) = parse_ics(text, floating=floating).events
    return event


def refusal(text: str) -> CalendarInvalidError:
    with pytest.raises(CalendarInvalidError) as caught:
        parse_ics(text)
    assert caught.value.code == "calendar_invalid"
    assert str(caught.value).endswith(".")
    assert ". " not in str(caught.value), "one sentence"
    return caught.value


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_shipped_week_has_zones_a_recurring_event_and_an_all_day_event() -> None:
    week = parse_ics(sample_calendar())
    by_title = {event.title: event for event in week.events}
    assert week.name == "A week in September"
    assert len(by_title) == 6
    assert by_title["Stand-up"].local_start == "2026-09-14T09:15:00+02:00"
    assert by_title["Stand-up"].recurrence.splitlines()[0] == "RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
    assert by_title["Quarterly planning with Lisbon"].local_start == "2026-09-16T14:00:00+01:00"
    assert by_title["Team day in Potsdam"].all_day
    assert by_title["Release 2.4"].status == "tentative"
    assert by_title["Dentist"].location == "Lindenstraße 12, Berlin"


def test_a_zone_that_the_file_defines_gives_its_offset() -> None:
    event = only(read("custom_zone.ics"))
    assert event.local_start == "2014-08-29T08:00:00-04:00"
    assert event.time_zone == "Harbour time"
    assert (event.starts_at, event.ends_at) == (
        datetime(2014, 8, 29, 12, tzinfo=UTC),
        datetime(2014, 8, 29, 14, tzinfo=UTC),
    )


def test_a_zone_defined_after_its_use_counts() -> None:
    text = read("custom_zone.ics")
    zone = text[text.index("BEGIN:VTIMEZONE") : text.index("BEGIN:VEVENT")]
    moved = text.replace(zone, "").replace("END:VCALENDAR", f"{zone}END:VCALENDAR")
    assert only(moved).local_start == "2014-08-29T08:00:00-04:00"


def test_a_zone_that_one_file_defines_means_nothing_in_the_next() -> None:
    only(read("custom_zone.ics"))
    other = read("custom_zone.ics").replace("-0400", "+0900").replace("-0500", "+0900")
    assert only(other).local_start == "2014-08-29T08:00:00+09:00"
    undefined = event_of("DTSTART;TZID=Harbour time:20140829T080000")
    assert "the time zone Harbour time, which the file does not define" in str(refusal(undefined))


@pytest.mark.parametrize(
    "name",
    ["Europe/Berlin", "W. Europe Standard Time", "/Europe/Berlin", "/vendor.example/2007_1/Europe/Berlin"],
)
def test_zones_are_known_by_iana_windows_and_vendor_names_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert only(event_of(f"DTSTART;TZID={name}:20250701T100000")).local_start == "2025-07-01T10:00:00+02:00"


def test_only_events_are_read() -> None:
    assert [event.title for event in parse_ics(read("others_are_no_events.ics")).events] == ["Market day"]


def test_an_all_day_event_runs_from_midnight_to_midnight() -> None:
    event = only(event_of("DTSTART;VALUE=DATE:20250115", "DTEND;VALUE=DATE:20250117"))
    assert event.all_day
    assert event.local_start == "2025-01-15"
    assert (event.starts_at, event.ends_at) == (datetime(2025, 1, 15, tzinfo=UTC), datetime(2025, 1, 17, tzinfo=UTC))


@pytest.mark.parametrize(
    ("lines", "minutes"),
    [
        (["DTSTART:20250115T100000Z"], 0),
        (["DTSTART:20250115T100000Z", "DURATION:PT90M"], 90),
        (["DTSTART:20250115T100000Z", "DTEND;TZID=Europe/London:20250115T100500"], 5),
        (["DTSTART;VALUE=DATE:20250115"], 24 * 60),
        (["DTSTART;VALUE=DATE:20250115", "DTEND;VALUE=DATE:20250115"], 24 * 60),
        (["DTSTART;VALUE=DATE:20250115", "DURATION:P2D"], 2 * 24 * 60),
    ],
)
def test_the_end_comes_from_dtend_or_duration_or_the_start(lines: list[str], minutes: int) -> None:
    event = only(event_of(*lines))
    assert (event.ends_at - event.starts_at).total_seconds() == minutes * 60


def test_floating_times_are_read_in_the_zone_named_else_in_the_calendars_else_in_utc() -> None:
    event = ["BEGIN:VEVENT", "DTSTART:20250701T100000", "END:VEVENT"]
    with_zone = calendar_of("X-WR-TIMEZONE:Asia/Tokyo", *event)
    assert only(calendar_of(*event)).local_start == "2025-07-01T10:00:00+00:00"
    assert only(with_zone).local_start == "2025-07-01T10:00:00+09:00"
    assert only(with_zone, floating="Europe/Berlin").local_start == "2025-07-01T10:00:00+02:00"


def test_a_time_in_utc_stays_in_utc_whatever_its_zone_says() -> None:
    assert only(event_of("DTSTART;TZID=Asia/Tokyo:20250701T100000Z")).starts_at == datetime(2025, 7, 1, 10, tzinfo=UTC)


def test_an_event_without_a_uid_gets_the_same_one_each_time() -> None:
    text = event_of("DTSTART:20250115T100000Z", "SUMMARY:Market day")
    assert only(text).uid == only(text).uid
    assert only(text).uid != only(text.replace("Market", "Payment")).uid


def test_the_later_of_two_events_with_one_uid_counts_and_a_moved_occurrence_is_another() -> None:
    series = ["BEGIN:VEVENT", "UID:a", "DTSTART:20250115T100000Z", "RRULE:FREQ=DAILY", "SUMMARY:{}", "END:VEVENT"]
    moved = ["BEGIN:VEVENT", "UID:a", "RECURRENCE-ID:20250116T100000Z", "DTSTART:20250116T110000Z", "END:VEVENT"]
    lines = [line.format("old") for line in series] + [line.format("new") for line in series] + moved
    first, second = parse_ics(calendar_of(*lines)).events
    assert (first.title, first.recurrence) == ("new", "RRULE:FREQ=DAILY")
    assert second.recurrence_id == "2025-01-16T10:00:00+00:00"


def test_long_texts_are_cut() -> None:
    event = only(event_of("DTSTART:20250115T100000Z", f"SUMMARY:{'a' * 600}", f"DESCRIPTION:{'b' * 5_000}"))
    assert (len(event.title), len(event.description or "")) == (500, 4_000)
    assert event.title.endswith("…")


def test_folded_lines_and_several_calendars_are_read() -> None:
    text = event_of("DTSTART:20250115T100000Z", "SUMMARY:Mar", " ket\\, ", "", "\tday") * 2
    assert only(text).title == "Market, day"


def test_a_property_of_others_own_making_may_hold_anything() -> None:
    only(event_of("DTSTART:20250115T100000Z", "X-MOON;VALUE=DATE-TIME:full"))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place", "told"),
    [
        ("no_start.ics", {"line": 9, "event": 2, "property": "DTSTART"}, "Event 2 of the file (line 9) has no start"),
        ("cut_off.ics", {"line": 5}, "no complete calendar in the file"),
        ("no_event_after_bom.ics", {"line": 1}, "no event in the file: the calendar on lines 1 to 3"),
        (
            "broken_start.ics",
            {"line": 6, "event": 1, "property": "DTSTART"},
            "Line 6 of the file cannot be read: the start",
        ),
        ("broken_line.ics", {"line": 6}, "Line 6 of the file cannot be read: 'Z' is no property"),
    ],
)
def test_a_file_is_refused_with_the_place_of_its_fault(name: str, place: dict[str, object], told: str) -> None:
    error = refusal(read(name))
    assert told in str(error)
    assert error.details == place


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["DTSTART:20250230T100000Z"], "the start (DTSTART) of event 1"),
        (["DTSTART:P1D"], "DTSTART is neither a day nor a time of a day"),
        (["DTSTART:20250115", "DTSTART:20250116"], "DTSTART is there more than once"),
        (["DTSTART:20250115T100000Z", "DTEND:20250115T090000Z"], "ends before it starts"),
        (["DTSTART:20250115T100000Z", "DURATION:-PT1H"], "ends before it starts"),
        (["DTSTART:20250115T100000Z", "DURATION:P99999999999D"], "the DURATION of event 1"),
        (["DTSTART:20250115T100000Z", "DTEND:20250116"], "must be a day where DTSTART is one"),
        (["DTSTART;TZID=Asia/Tokyo:00010101T000000"], "no instant in the time zone Asia/Tokyo"),
        (["DTSTART;TZID=Europe:20250115T100000"], "the time zone Europe, which the file does not define"),
        (["DTSTART;TZID=../../etc/passwd:20250115T100000"], "which the file does not define"),
        (["DTSTART:20250115", "GEO:here"], "the GEO of event 1"),
        (["DTSTART:20250115", "BEGIN:VALARM", "TRIGGER:soon", "END:VALARM"], "the TRIGGER of event 1"),
        (["DTSTART:20250115", "BEGIN:VALARM"], "'END:VEVENT' stands where 'VALARM', begun on line 4, should end"),
        (["DTSTART:20250115", "BEGIN:VEVENT", "END:VEVENT"], "an event begins inside 'VEVENT'"),
        (
            ["DTSTART:20250115", f"RDATE:{'20250115,' * 3_000}20250115"],
            "the rule by which event 1 recurs exceeds 20000 characters",
        ),
        (["DTSTART:20250115", *["RDATE:"] * 100_000], "the rule by which event 1 recurs exceeds 20000 characters"),
        (["BEGIN:X"] * 16, "more than 16 components stand inside each other"),
    ],
)
def test_a_fault_in_an_event_refuses_the_file(lines: list[str], told: str) -> None:
    assert told in str(refusal(event_of(*lines)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line of it says BEGIN:VCALENDAR"),
        ("<html>\n", "Line 1 of the file cannot be read: '<html>' is no property"),
        ("BEGIN:VEVENT\nEND:VEVENT\n", "'BEGIN:VEVENT' stands outside any calendar"),
        ("SUMMARY:Market day\n", "the SUMMARY of no calendar"),
        ("END:VCALENDAR\n", "'END:VCALENDAR' ends what never began"),
        ("BEGIN:VCALENDAR\nBEGIN:VCALENDAR\n", "another calendar, which has no end"),
        (event_of("DTSTART:20250115") + "BEGIN:VCALENDAR\n", "VCALENDAR, begun on line 6, has no end"),
    ],
)
def test_what_is_no_calendar_is_refused(text: str, told: str) -> None:
    assert told in str(refusal(text))


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("FREQ=SECONDLY", "changes more often"),
        ("FREQ=YEARLY;INTERVAL=0", "changes more often"),
        ("FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU", "changes more often"),
        ("FREQ=YEARLY;BYHOUR=1,2,3", "changes more often"),
        ("FREQ=NEVER", "the RRULE of 'DAYLIGHT'"),
    ],
)
def test_a_zone_whose_rule_could_be_counted_for_hours_is_refused(rule: str, told: str) -> None:
    text = read("custom_zone.ics").replace("FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", rule)
    assert told in str(refusal(text))


@pytest.mark.parametrize(("name", "offset"), [("TZOFFSETFROM", "-0500"), ("TZOFFSETTO", "-0400")])
def test_a_zone_without_an_offset_is_refused(name: str, offset: str) -> None:
    assert f"no {name}" in str(refusal(read("custom_zone.ics").replace(f"{name}:{offset}", "COMMENT:none")))


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ([], "it has neither STANDARD nor DAYLIGHT"),
        (
            [
                "BEGIN:STANDARD",
                "DTSTART:19700101T000000",
                "RDATE;VALUE=PERIOD:19700101T000000/P1D",
                "TZOFFSETFROM:+0100",
                "TZOFFSETTO:+0200",
                "END:STANDARD",
            ],
            "its rules cannot be read",
        ),
    ],
)
def test_a_zone_without_sense_is_refused(definition: list[str], told: str) -> None:
    zone = ["BEGIN:VTIMEZONE", "TZID:Nowhere", *definition, "END:VTIMEZONE"]
    event = ["BEGIN:VEVENT", "DTSTART;TZID=Nowhere:20250115T100000", "END:VEVENT"]
    assert told in str(refusal(calendar_of(*zone, *event)))


def test_bytes_that_are_no_utf_8_are_refused_with_their_line() -> None:
    with pytest.raises(CalendarInvalidError, match="Line 2 cannot be read: the file is not UTF-8 text"):
        decode_ics(b"BEGIN:VCALENDAR\nSUMMARY:Caf\xe9\n")


def test_a_refusal_never_holds_the_whole_line() -> None:
    assert len(str(refusal("<" * 100_000))) < 200
    assert len(str(refusal(event_of(f"DTSTART;TZID={'x' * 100_000}:20250115T100000")))) < 300


def test_a_refusal_is_an_error_of_the_package_that_an_action_may_raise() -> None:
    assert issubclass(CalendarInvalidError, ActionFailed)
    assert issubclass(CalendarInvalidError, GrundlagError)


def test_zones_of_strangers_are_not_kept() -> None:
    def define(number: int) -> str:
        return read("custom_zone.ics").replace("Harbour time", f"Zone {number} {'x' * 200}")

    parse_ics(define(0))
    tracemalloc.start()
    try:
        for number in range(1, 30):
            parse_ics(define(number))
        gc.collect()
        kept = sum(
            stat.size
            for stat in tracemalloc.take_snapshot().statistics("filename")
            if "dateutil" in stat.traceback[0].filename
        )
    finally:
        tracemalloc.stop()
    assert kept < 10_000
