"""Calendar files: text in, events out, or the place of the fault.

Strict where icalendar is lenient, because an import is all or nothing: a line that cannot be read, a component without
its end or an event without a start refuses the whole file. Only properties named `X-...` may hold any value.

- An event is a VEVENT; to-dos, journals and alarms are none.
- A name of the IANA database wins over the file's own definition of it; other names need a definition in the file.
- Floating times (no zone, no `Z`) are read in the zone that the caller names, else in the calendar's X-WR-TIMEZONE,
  else in UTC.
- An all-day event runs from midnight UTC of its first day to midnight UTC after its last.
- A recurring event is one event, at its first occurrence; the lines of its rule are kept as the file has them.
- The same UID (and RECURRENCE-ID) twice in a file: the later one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from grundlag_bus.demo.ics_lines import CalendarInvalidError, FoundEvent, read_calendars
from grundlag_bus.demo.parsed import ParsedCalendar, ParsedEvent
from grundlag_bus.demo.zones import known_zone

if TYPE_CHECKING:
    from datetime import tzinfo

    from icalendar import Component

__all__ = ["CalendarInvalidError", "decode_ics", "parse_ics"]

TITLE_LENGTH = 500
DESCRIPTION_LENGTH = 4_000
_ZONE_LENGTH = 100
_NAMELESS = UUID("5d1d6f8a-1c39-4b0e-9a55-6a1a1f9b7c11")


def decode_ics(data: bytes) -> str:
    """Make text of a file's bytes. Raises CalendarInvalidError where they are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise CalendarInvalidError(f"Line {line} cannot be read: the file is not UTF-8 text.", line=line) from exc


def parse_ics(text: str, *, floating: str | None = None) -> ParsedCalendar:
    """Read a calendar file; `floating` names the zone of times without one. Raises CalendarInvalidError."""
    calendars = read_calendars(text)
    events = {}
    for calendar in calendars:
        zone = known_zone(floating or _text(calendar.component, "X-WR-TIMEZONE") or "UTC") or UTC
        for found in calendar.events:
            event = _Event(found, floating=zone).parsed()
            events[event.uid, event.recurrence_id] = event
    if not events:
        first = calendars[0]
        raise CalendarInvalidError(
            f"There is no event in the file: the calendar on lines {first.begins} to {first.ends} holds none.",
            line=first.begins,
        )
    return ParsedCalendar(_text(calendars[0].component, "X-WR-CALNAME"), tuple(events.values()))


@dataclass(frozen=True, slots=True)
class _Moment:
    value: date | datetime
    zone: str

    @property
    def all_day(self) -> bool:
        return not isinstance(self.value, datetime)

    @property
    def instant(self) -> datetime:
        if isinstance(self.value, datetime):
            return self.value.astimezone(UTC)
        return datetime(self.value.year, self.value.month, self.value.day, tzinfo=UTC)


class _Event:
    def __init__(self, found: FoundEvent, *, floating: tzinfo) -> None:
        self._found = found
        self._component = found.component
        self._floating = floating

    def parsed(self) -> ParsedEvent:
        start = self._moment("DTSTART")
        if start is None:
            raise self._fault("DTSTART", "has no start", "is missing")
        ends_at = self._end(start)
        replaces = self._moment("RECURRENCE-ID")
        title = _text(self._component, "SUMMARY", TITLE_LENGTH) or "Untitled event"
        location = _text(self._component, "LOCATION", TITLE_LENGTH)
        status = (_text(self._component, "STATUS") or "").lower()
        return ParsedEvent(
            # An event without a UID gets one of its content: importing it again must not duplicate it.
            uid=self._uid() or str(uuid5(_NAMELESS, f"{start.instant}\n{ends_at}\n{title}\n{location}")),
            recurrence_id=replaces.instant.isoformat() if replaces else "",
            title=title,
            starts_at=start.instant,
            ends_at=ends_at,
            all_day=start.all_day,
            time_zone=start.zone,
            local_start=start.value.isoformat(),
            location=location,
            description=_text(self._component, "DESCRIPTION", DESCRIPTION_LENGTH),
            recurrence="\n".join(self._found.recurrence),
            status=status if status in {"tentative", "cancelled"} else "confirmed",
        )

    def _uid(self) -> str:
        value = self._value("UID")
        return "" if value is None else str(value).strip()

    def _end(self, start: _Moment) -> datetime:
        end = self._moment("DTEND")
        duration = self._value("DURATION")
        if end is not None:
            if end.all_day != start.all_day:
                raise self._fault("DTEND", "cannot be read", "must be a day where DTSTART is one, else a time")
            ends_at = end.instant
        elif duration is not None:
            ends_at = self._after(start, duration)
        else:
            ends_at = start.instant
        if ends_at < start.instant:
            name = "DURATION" if end is None else "DTEND"
            raise self._fault(name, "ends before it starts", f"is before {start.value.isoformat()}")
        if start.all_day and ends_at == start.instant:
            return self._after(start, timedelta(days=1))
        return ends_at

    def _after(self, start: _Moment, duration: Any) -> datetime:
        try:
            ends_at: datetime = start.instant + getattr(duration, "td", duration)
        except (OverflowError, TypeError) as exc:
            raise self._fault("DURATION", "has an end that cannot be read", "is no length of time") from exc
        return ends_at

    def _moment(self, name: str) -> _Moment | None:
        """Return the property's day or instant, or None where the event has no such property."""
        value = self._value(name)
        if value is None:
            return None
        moment = getattr(value, "dt", None)
        if isinstance(moment, datetime):
            return self._in_zone(name, moment, value.params.get("TZID"))
        if isinstance(moment, date):
            return _Moment(moment, "UTC")
        raise self._fault(name, "cannot be read", "is neither a day nor a time of a day")

    def _in_zone(self, name: str, moment: datetime, zone_name: str | None) -> _Moment:
        zone: tzinfo = UTC
        if moment.tzinfo is not None:
            zone_name = "UTC"
        elif zone_name is None:
            zone, zone_name = self._floating, str(self._floating)
        else:
            zone = self._zone(name, str(zone_name))
        try:
            located = moment.replace(tzinfo=zone)
            located.astimezone(UTC)
        except Exception as exc:  # a zone that the file defines raises whatever its rules make dateutil raise
            shown = _short(zone_name, 60)
            raise self._fault(name, "cannot be read", f"has no instant in the time zone {shown}") from exc
        return _Moment(located, _short(zone_name, _ZONE_LENGTH))

    def _zone(self, name: str, zone_name: str) -> tzinfo:
        shown = _short(zone_name, 60)
        try:
            zone = self._found.zones.find(zone_name)
        except ValueError as exc:
            raise self._fault(name, "cannot be read", f"uses the time zone {shown} of the file, and {exc}") from exc
        if zone is None:
            raise self._fault(name, "cannot be read", f"uses the time zone {shown}, which the file does not define")
        return zone

    def _value(self, name: str) -> Any:
        value = self._component.get(name)
        if isinstance(value, list):
            raise self._fault(name, "cannot be read", "is there more than once")
        return value

    def _fault(self, name: str, what: str, why: str) -> CalendarInvalidError:
        found = self._found
        return CalendarInvalidError(
            f"Event {found.number} of the file (line {found.begins}) {what}: {name} {why}.",
            line=found.begins,
            event=found.number,
            property=name,
        )


def _text(component: Component, name: str, length: int = 1_000) -> str | None:
    value = component.get(name)
    if isinstance(value, list):
        value = value[0]
    return _short(str(value).strip(), length) or None if value is not None else None


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
