"""What users test their own actions with."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    ActionInputValidationError,
    EventInvalidError,
    Ledger,
    NotJsonError,
    Provider,
    ProviderRegistry,
    ServiceMissingError,
    Store,
    ToolInterrupt,
    testing,
)
from grundlag_bus.schema.items import new_item


class CreateEvent(BaseModel):
    title: str


class EventCreated(BaseModel):
    event_id: str


class Approval(BaseModel):
    approved: bool


class Clock:
    def now(self) -> str:
        return "now"


class FixedClock(Clock):
    def now(self) -> str:
        return "12:00"


calendar = Provider("calendar", name="Calendar")


@calendar.action("createEvent", name="Create an event")
async def create_event(event: CreateEvent, ctx: ActionContext) -> EventCreated:
    clock = await ctx.services.get(Clock)
    ctx.items.emit("event", {"title": event.title})
    return EventCreated(event_id=f"{event.title} {clock.now()} {ctx.user_id}")


@calendar.action("deleteEvent", name="Delete an event", answer=Approval)
async def delete_event(event: CreateEvent, ctx: ActionContext[Approval]) -> list[Any]:
    if ctx.resumption is None:
        raise ToolInterrupt("Sure?", state={"version": 7})
    return [ctx.resumption.answer.approved, ctx.resumption.state, ctx.resumption.by]


async def test_an_action_is_tested_in_five_lines() -> None:
    created = await create_event.execute(CreateEvent(title="Lunch"), testing.context(services={Clock: FixedClock()}))
    assert created.event_id == "Lunch 12:00 None"


async def test_the_validation_is_that_of_a_worker() -> None:
    with pytest.raises(ActionInputValidationError):
        await create_event.execute({"title": 1}, testing.context())


async def test_the_context_has_what_it_was_given_and_keeps_what_was_emitted() -> None:
    given = [new_item("event", 1)]
    context = testing.context(services={Clock: FixedClock()}, user_id="ada", items=given, call_id="c1", timeout=60)
    assert (await create_event.execute({"title": "Lunch"}, context)).event_id == "Lunch 12:00 ada"
    assert context.call_id == "c1"
    assert [item.data for item in context.items.emitted] == [{"title": "Lunch"}]
    assert context.items.list()[0] == given[0]
    assert 50 < (context.deadline - datetime.now(UTC)).total_seconds() <= 60


async def test_the_context_keeps_the_events_and_checks_them() -> None:
    moved = calendar.event("moved", EventCreated, name="An event was moved")

    @calendar.action("moveEvent", name="Move an event")
    async def move_event(event: CreateEvent, ctx: ActionContext) -> None:
        await ctx.emit(moved, {"event_id": event.title})
        await ctx.emit("renamed", {"any": "thing"})

    @calendar.action("moveInThread", name="Move an event, in a thread")
    def move_in_thread(event: CreateEvent, ctx: ActionContext) -> None:
        _ = ctx.emit(moved, EventCreated(event_id=event.title))
        _ = ctx.emit(moved, {"event_id": 7})

    context = testing.context(user_id="ada")
    await move_event.execute({"title": "Lunch"}, context)
    assert [(event.event_id, event.data) for event in context.events] == [
        ("moved", {"event_id": "Lunch"}),
        ("renamed", {"any": "thing"}),
    ]
    assert {event.user_id for event in context.events} == {"ada"}
    context = testing.context()
    with pytest.raises(EventInvalidError, match=r"moved\.event_id"):
        await move_in_thread.execute({"title": "Lunch"}, context)
    assert [event.data for event in context.events] == [{"event_id": "Lunch"}]


async def test_a_missing_service_is_named() -> None:
    with pytest.raises(ServiceMissingError, match="No service Clock is registered"):
        await create_event.execute({"title": "Lunch"}, testing.context())


async def test_both_halves_of_an_interrupting_action_are_tested_alike() -> None:
    with pytest.raises(ToolInterrupt) as raised:
        await delete_event.execute({"title": "Lunch"}, testing.context(user_id="ada"))
    context = testing.context(answer=Approval(approved=True), state=raised.value.state, user_id="ada")
    assert await delete_event.execute({"title": "Lunch"}, context) == [True, {"version": 7}, "ada"]


async def test_a_memory_bus_serves_a_registry_and_leaves_nothing_behind() -> None:
    async with testing.memory_bus(ProviderRegistry([calendar])) as bus:
        tools = await bus.to_tools()
        with pytest.raises(ToolInterrupt) as raised:
            await tools["calendarDeleteEvent"].execute({"title": "Lunch"})
        assert await tools["calendarDeleteEvent"].resume(raised.value, {"approved": True}) == [
            True,
            {"version": 7},
            None,
        ]
        assert bus.transport is not None
        assert bus.transport.embedded
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_memory_bus_whose_worker_cannot_start_says_why() -> None:
    class Broken(ProviderRegistry):
        async def __aenter__(self) -> Any:
            raise ConnectionError("no database")

    with pytest.raises(ConnectionError, match="no database"):
        async with testing.memory_bus(Broken([calendar])):
            raise AssertionError


@calendar.action("import", name="Import events", lane="long")
async def import_events(titles: list[str], ctx: ActionContext) -> int:
    for done in range(ctx.checkpointed or 0, len(titles)):
        await ctx.checkpoint(done + 1)
    return len(ctx.checkpoints) if isinstance(ctx, testing.TestedContext) else 0


async def test_a_bus_in_memory_may_have_a_ledger(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path}/ledger.sqlite") as store:
        films = Provider("films", name="Films")
        films.actions.register(import_events)
        async with testing.memory_bus(ProviderRegistry([films]), ledger=Ledger(store)) as bus:
            tools = await bus.to_tools()
            assert await tools["filmsImport"].execute(["a", "b"]) == 0


async def test_an_action_goes_on_from_a_checkpoint_and_its_own_are_there_to_look_at() -> None:
    context = testing.context(checkpointed=1)
    assert await import_events.execute(["a", "b", "c"], context) == 2
    assert context.checkpoints == [2, 3]


@pytest.mark.parametrize(
    ("state", "code"), [({1, 2}, "not_json"), ("x" * 64 * 1024, "too_large"), (float("nan"), "not_finite")]
)
async def test_a_checkpoint_is_json_of_limited_size(state: Any, code: str) -> None:
    with pytest.raises(NotJsonError) as raised:
        await testing.context().checkpoint(state)
    assert (raised.value.issue.path, raised.value.issue.code) == (("checkpoint",), code)
