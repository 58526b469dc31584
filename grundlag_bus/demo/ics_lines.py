"""The lines and components of a calendar file, with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NoReturn

from icalendar import Component, ComponentFactory, Timezone
from icalendar.parser import Contentline
from icalendar.parser.ical.component import ComponentIcalParser

from grundlag_bus import ActionFailed
from grundlag_bus.demo.zones import Zones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from icalendar.parser import Parameters

_DEPTH = 16
_SHOWN = 40
_RECURRENCE_LENGTH = 20_000
_RECURRENCE = frozenset({"RRULE", "RDATE", "EXDATE", "EXRULE"})
_WORDS = {"DTSTART": "the start (DTSTART)", "DTEND": "the end (DTEND)"}
_NAME = re.compile(r"[A-Za-z0-9-]+(?=[;:])")


class CalendarInvalidError(ActionFailed):
    """A calendar file is refused; the details name the place: its line, and the event and property where known."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        event: int | None = None,
        property: str | None = None,  # noqa: A002  the format's word
    ) -> None:
        place = {"line": line, "event": event, "property": property}
        super().__init__(
            "calendar_invalid", message, details={name: value for name, value in place.items() if value is not None}
        )


@dataclass(slots=True)
class FoundEvent:
    """A VEVENT; number: its place among the file's events, from 1; recurrence: the lines of its rule, unfolded."""

    component: Component
    number: int
    begins: int
    zones: Zones
    recurrence: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FoundCalendar:
    """A complete VCALENDAR, on the lines from `begins` to `ends`."""

    component: Component
    begins: int
    ends: int = 0
    events: list[FoundEvent] = field(default_factory=list)
    zones: Zones = field(default_factory=Zones)


def read_calendars(text: str) -> list[FoundCalendar]:
    """Read every line of the file. Returns one calendar at least; raises CalendarInvalidError."""
    reader = _Reader()
    reader.read(text.removeprefix("\ufeff"))
    return reader.calendars


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Yield each content line with the number of the line on which it begins; folds and empty lines are gone."""
    begins, parts = 0, list[str]()
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if line[:1] in {" ", "\t"} and parts:
            parts.append(line[1:])
        elif line:
            if parts:
                yield begins, "".join(parts)
            begins, parts = number, [line]
    if parts:
        yield begins, "".join(parts)


class _Reader(ComponentIcalParser):
    """icalendar's parser, made strict, with places, and without its time zone cache that all files share."""

    datetime_names: ClassVar[tuple[str, ...]] = ()  # times stay as written; their zones are found per file, afterwards

    def __init__(self) -> None:
        super().__init__([], ComponentFactory(), Component.types_factory)
        self.calendars: list[FoundCalendar] = []
        self._open: list[tuple[str, int]] = []
        self._line = 0
        self._events = 0

    def read(self, text: str) -> None:
        self.initialize_parsing()  # type: ignore[no-untyped-call]  # icalendar types it only in part
        for self._line, line in _unfolded(text):
            self._read_line(Contentline(line))  # type: ignore[no-untyped-call]  # the same
        if self._open:
            kind, begins = self._open[-1]
            raise CalendarInvalidError(
                f"There is no complete calendar in the file: {kind[:_SHOWN]}, begun on line {begins}, has no end, "
                f"and line {self._line} is the last.",
                line=self._line,
            )
        if not self.calendars:
            raise CalendarInvalidError("There is no calendar in the file: no line of it says BEGIN:VCALENDAR.", line=1)

    def _read_line(self, line: Contentline) -> None:
        try:
            name, params, value = line.parts()
        except ValueError as exc:
            self._refuse_line(line, exc)
        kind = name.upper()
        if kind == "BEGIN":
            self.handle_begin_component(value)
        elif kind == "END":
            self.handle_end_component(value)
        else:
            try:
                self.handle_property(kind, params, value, line)
            except CalendarInvalidError:
                raise
            except Exception as exc:  # noqa: BLE001  icalendar raises whatever a strange value makes it raise
                self._refuse_line(line, exc)
            if kind in _RECURRENCE and self._open[-1][0] == "VEVENT":
                self._keep_recurrence(self.calendars[-1].events[-1], line)

    def _keep_recurrence(self, event: FoundEvent, line: str) -> None:
        event.recurrence.append(line)
        if sum(map(len, event.recurrence)) > _RECURRENCE_LENGTH:
            self._refuse(f"the rule by which event {event.number} recurs exceeds {_RECURRENCE_LENGTH} characters")

    def handle_begin_component(self, vals: str) -> None:
        kind = vals.strip().upper()
        inside = self._open[-1][0] if self._open else None
        if (inside is None) != (kind == "VCALENDAR"):
            where = "outside any calendar" if inside is None else "inside another calendar, which has no end"
            self._refuse(f"{f'BEGIN:{kind}'[:_SHOWN]!r} stands {where}")
        if kind == "VEVENT" and inside != "VCALENDAR":
            self._refuse(f"an event begins inside {str(inside)[:_SHOWN]!r}")
        if len(self._open) >= _DEPTH:
            self._refuse(f"more than {_DEPTH} components stand inside each other")
        super().handle_begin_component(kind)
        self._open.append((kind, self._line))
        component = self._stack[-1]
        if kind == "VCALENDAR":
            self.calendars.append(FoundCalendar(component, self._line))
        elif kind == "VEVENT":
            self._events += 1
            calendar = self.calendars[-1]
            calendar.events.append(FoundEvent(component, self._events, self._line, calendar.zones))

    def handle_end_component(self, vals: str) -> None:
        kind = vals.strip().upper()
        if not self._open:
            self._refuse(f"{f'END:{kind}'[:_SHOWN]!r} ends what never began")
        opened, begins = self._open.pop()
        if kind != opened:
            self._refuse(
                f"{f'END:{kind}'[:_SHOWN]!r} stands where {opened[:_SHOWN]!r}, begun on line {begins}, should end"
            )
        component = self._stack.pop()
        if self._stack:
            self._stack[-1].add_component(component)
        if kind == "VCALENDAR":
            self.calendars[-1].ends = self._line
        elif isinstance(component, Timezone):
            self.calendars[-1].zones.define(component)

    def handle_property_parse_error(
        self, exception: Exception, name: str, params: Parameters, val: str, line: Contentline
    ) -> None:
        if not name.startswith("X-"):
            self._refuse_line(line, exception)
        super().handle_property_parse_error(exception, name, params, val, line)

    def _refuse_line(self, line: Contentline, cause: Exception) -> NoReturn:
        named = _NAME.match(line)
        property_name = named[0].upper() if named else None
        inside_event = any(kind == "VEVENT" for kind, _ in self._open)
        if property_name is None:
            what = f"{line[:_SHOWN]!r} is no property"
        else:
            component = repr(self._open[-1][0][:_SHOWN]) if self._open else "no calendar"
            owner = f"event {self._events}" if inside_event else component
            subject = _WORDS.get(property_name, f"the {property_name[:_SHOWN]}")
            what = f"{subject} of {owner} is not written as it must be"
        raise CalendarInvalidError(
            f"Line {self._line} of the file cannot be read: {what}.",
            line=self._line,
            event=self._events if inside_event else None,
            property=property_name,
        ) from cause

    def _refuse(self, why: str) -> NoReturn:
        raise CalendarInvalidError(f"Line {self._line} of the file cannot be read: {why}.", line=self._line)
