"""The provider `calendar`: a calendar per user, on SQLite."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from grundlag_bus import ActionContext, ActionFailed, Database, DatabaseService, Provider, ToolInterrupt
from grundlag_bus.demo import calendar_store as store
from grundlag_bus.demo.calendar_models import (
    Approval,
    CalendarEvent,
    CalendarImport,
    CreateEvent,
    DeleteEvent,
    EventCreated,
    EventDeleted,
    EventRef,
    EventsFound,
    IcsImported,
    ImportIcs,
    SearchEvents,
)
from grundlag_bus.demo.parsed import ParsedCalendar, ParsedEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.ext.asyncio import AsyncConnection

calendar_db = Database("calendar", metadata=store.metadata)

calendar = Provider("calendar", name="Calendar", description="A calendar per user: its events, created or imported.")
calendar.entity("calendarEvent", CalendarEvent, name="Calendar event")
event_created = calendar.event("eventCreated", EventRef, name="An event was created")


@calendar.action("createEvent", name="Create calendar event", idempotent=True)
async def create_event(event: CreateEvent, ctx: ActionContext) -> EventCreated:
    """Creates an event on the user's calendar."""
    planned = ParsedEvent(
        uid=ctx.call_id,  # so that a repeated delivery of the call creates nothing
        recurrence_id="",
        title=event.title,
        starts_at=event.starts_at,
        ends_at=event.starts_at + timedelta(minutes=event.duration_minutes),
        all_day=False,
        time_zone=event.time_zone,
        local_start=event.starts_at.astimezone(ZoneInfo(event.time_zone)).isoformat(),
        location=event.location,
        description=event.description,
        recurrence="",
        status="confirmed",
    )
    owner = _owner(ctx)
    async with _writing(ctx) as connection:
        await store.save(connection, owner, [planned])
    event_id = store.event_id_of(owner, planned)
    created = EventRef(event_id=event_id, title=event.title, starts_at=event.starts_at)
    ctx.items.emit("calendarEvent", created)
    await ctx.emit(event_created, created)
    return EventCreated(event_id=event_id)


@calendar.action(
    "searchEvents",
    name="Search calendar events",
    reads=["calendarImport"],
    idempotent=True,
    parallel_safe=True,
)
async def search_events(wanted: SearchEvents, ctx: ActionContext) -> EventsFound:
    """Finds events of the user's calendar by text and by start, the earliest first.

    A recurring event is found at its first occurrence only.
    """
    import_id = None
    if wanted.latest_import:
        latest = ctx.items.latest("calendarImport")
        if latest is None:
            raise ActionFailed("import_not_found", "Nothing was imported in this conversation: call importIcs first.")
        import_id = CalendarImport.model_validate(latest.data).import_id
    async with _reading(ctx) as connection:
        found, more = await store.search(connection, _owner(ctx), wanted, import_id=import_id)
    return EventsFound(events=found, more=more)


@calendar.action("importIcs", name="Import a calendar file", idempotent=True)
async def import_ics(file: ImportIcs, ctx: ActionContext) -> IcsImported:
    """Imports the events of an iCalendar file (.ics) into the user's calendar: all of them, or none.

    An event that is there already (the same UID and RECURRENCE-ID) is updated. To-dos and journals are left out.
    A recurring event is kept as one event, at its first occurrence, with its rule. Long texts are cut: a title or
    location at 500 characters, a description at 4,000. A file that cannot be read in full fails as `calendar_invalid`,
    with the place of the fault.
    """
    parsed = await asyncio.to_thread(_parse, file)
    owner, import_id = _owner(ctx), ctx.call_id
    async with _writing(ctx) as connection:
        saved = await store.save(connection, owner, parsed.events, import_id=import_id)
        listed = await store.imported_by(connection, owner, import_id)
    done = CalendarImport(
        import_id=import_id,
        name=file.name or parsed.name,
        imported=len(parsed.events),
        created=saved.created,
        updated=saved.updated,
        unchanged=saved.unchanged,
    )
    ctx.items.emit("calendarImport", done)
    return IcsImported(**done.model_dump(), events=listed)


@calendar.action("deleteEvent", name="Delete an event", answer=Approval, idempotent=True)
async def delete_event(target: DeleteEvent, ctx: ActionContext[Approval]) -> EventDeleted:
    """Deletes an event from the user's calendar, after a person approved."""
    owner = _owner(ctx)
    if ctx.resumption is None:
        async with _reading(ctx) as connection:
            found = await store.find(connection, owner, target.event_id)
        if found is None:
            raise _not_found(target.event_id)
        event = found.event
        raise ToolInterrupt(f'Delete "{event.title}" ({event.local_start})?', data={"event": event}, state=found.mark)
    answer = ctx.resumption.answer
    if not answer.approved:
        return EventDeleted(event_id=target.event_id, deleted=False, comment=answer.comment)
    async with _writing(ctx) as connection:
        removed = await store.remove(connection, owner, target.event_id, ctx.resumption.state)
        # Gone is as good as deleted: a repeated delivery of this call must not fail.
        if not removed and await store.find(connection, owner, target.event_id) is not None:
            raise ActionFailed(
                "event_changed",
                f"Event {target.event_id} changed after its deletion was asked for: look at it and ask again.",
            )
    return EventDeleted(event_id=target.event_id, deleted=True, comment=answer.comment)


def _parse(file: ImportIcs) -> ParsedCalendar:
    try:
        from grundlag_bus.demo.ics import parse_ics  # noqa: PLC0415  only importIcs needs icalendar, which loads slowly
    except ModuleNotFoundError as exc:
        raise ActionFailed(
            "icalendar_missing", "Calendar files need the library icalendar: pip install 'grundlag-bus[demo]'."
        ) from exc
    return parse_ics(file.ics, floating=file.time_zone)


def _owner(ctx: ActionContext) -> str:
    return ctx.user_id or ""


@asynccontextmanager
async def _reading(ctx: ActionContext) -> AsyncIterator[AsyncConnection]:
    database = await (await ctx.services.get(DatabaseService)).get_instance(calendar_db)
    async with database.engine.connect() as connection:
        yield connection


@asynccontextmanager
async def _writing(ctx: ActionContext) -> AsyncIterator[AsyncConnection]:
    database = await (await ctx.services.get(DatabaseService)).get_instance(calendar_db)
    async with database.begin() as connection:
        yield connection


def _not_found(event_id: str) -> ActionFailed:
    return ActionFailed("event_not_found", f"The calendar has no event {event_id}: find its id with searchEvents.")
