"""What the calendar's actions take and give."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LISTED_EVENTS = 100


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError("no time zone of the IANA database, such as Europe/Berlin") from exc
    return name


def _check_year(instant: datetime) -> datetime:
    # Python's calendar ends with the year 9999, and an event must be able to end after it starts.
    if not datetime(1, 1, 2, tzinfo=UTC) <= instant < datetime(9990, 1, 1, tzinfo=UTC):
        raise ValueError("must lie between the years 1 and 9990")
    return instant.astimezone(UTC)


ZoneName = Annotated[str, AfterValidator(_check_zone)]
Instant = Annotated[AwareDatetime, AfterValidator(_check_year)]
Title = Annotated[str, Field(min_length=1, max_length=500)]
EventId = Annotated[str, Field(description="The event's id, as createEvent and searchEvents give it")]


class _Given(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Returned(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class CalendarEvent(_Returned):
    """An event of a user's calendar."""

    event_id: EventId
    title: str = Field(description="What it is about, in a line")
    starts_at: datetime = Field(description="When it starts; an all-day event, at midnight UTC of its first day")
    ends_at: datetime = Field(description="When it ends; an all-day event, at midnight UTC after its last day")
    all_day: bool = Field(description="Whether it takes whole days")
    time_zone: str = Field(description="The zone that it was planned in, by the name that its source uses")
    local_start: str = Field(
        description="Its start on the wall clock of that zone, such as 2014-08-29T08:00:00-04:00; all day: 2014-08-29"
    )
    location: str | None = Field(description="Where it takes place")
    description: str | None = Field(description="Further text")
    recurrence: list[str] = Field(
        description="The iCalendar lines that say when it happens again (RRULE, RDATE, EXDATE), none when it does not; "
        "startsAt and endsAt are those of its first occurrence"
    )
    status: Literal["confirmed", "tentative", "cancelled"] = Field(description="Whether it takes place")
    version: int = Field(description="Grows with every change of the event")


class CreateEvent(_Given):
    title: Title = Field(description="What the event is about, in a line")
    starts_at: Instant = Field(description="When it starts, with its offset from UTC: 2026-09-14T09:00:00+02:00")
    duration_minutes: int = Field(default=30, gt=0, le=527_040, description="How long it takes; a year at most")
    time_zone: ZoneName = Field(default="UTC", description="The IANA zone that it is planned in, such as Europe/Berlin")
    location: Title | None = Field(default=None, description="Where it takes place")
    description: str | None = Field(default=None, max_length=4_000, description="Further text")


class EventCreated(_Returned):
    event_id: EventId


class SearchEvents(_Given):
    text: str | None = Field(
        default=None, max_length=200, description="Part of the title, the location or the description, in any case"
    )
    starts_from: Instant | None = Field(default=None, description="Only events that start then or later")
    starts_before: Instant | None = Field(default=None, description="Only events that start earlier")
    latest_import: bool = Field(
        default=False, description="Only the events of the latest importIcs of this conversation"
    )
    limit: int = Field(default=50, ge=1, le=LISTED_EVENTS, description="How many events to return at most")


class EventsFound(_Returned):
    events: list[CalendarEvent] = Field(description="By start, the earliest first")
    more: bool = Field(description="Whether there are more than these; search on from the last one's startsAt")


class ImportIcs(_Given):
    ics: str = Field(description="The text of an iCalendar file (.ics)")
    name: Title | None = Field(default=None, description="A name for the import; default: the calendar's own")
    time_zone: ZoneName | None = Field(
        default=None,
        description="The IANA zone of times that name none; default: the file's X-WR-TIMEZONE, else UTC",
    )


class CalendarImport(_Returned):
    """An import, as the item that importIcs emits keeps it."""

    import_id: str = Field(description="The import's id")
    name: str | None = Field(description="Its name")
    imported: int = Field(description="How many events the file holds: created + updated + unchanged")
    created: int = Field(description="How many of them are new here")
    updated: int = Field(description="How many were here with another content")
    unchanged: int = Field(description="How many were here just so")


class IcsImported(CalendarImport):
    events: list[CalendarEvent] = Field(description=f"The first of them by start, {LISTED_EVENTS} at most")


class DeleteEvent(_Given):
    event_id: EventId


class Approval(_Given):
    """A person's decision."""

    approved: bool = Field(description="Whether to do it")
    comment: str | None = Field(default=None, max_length=1_000, description="Why, or why not")


class EventDeleted(_Returned):
    event_id: EventId
    deleted: bool = Field(description="Whether it was deleted; false when the person did not approve")
    comment: str | None = Field(description="What the person who decided said")


class EventRef(_Returned):
    """What the event `eventCreated` carries."""

    event_id: EventId
    title: str = Field(description="What it is about, in a line")
    starts_at: datetime = Field(description="When it starts")
