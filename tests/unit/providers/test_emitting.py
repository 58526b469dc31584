"""Emitting from the loop and from threads, into a sink that does what a test tells it to."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from pydantic import BaseModel

from grundlag_bus import Call, EmittedEvent, EventInvalidError, EventNotSentError, Provider, Request
from grundlag_bus.providers.emitting import Emitting
from grundlag_bus.schema.codec import MAX_BYTES


class Moved(BaseModel):
    to: str


calendar = Provider("calendar", name="Calendar")
moved = calendar.event("moved", Moved, name="Moved")


class ToldSink:
    """Takes an event when `taken` is set, or refuses it."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.events: list[EmittedEvent] = []
        self.deadlines: list[float] = []
        self.taken = asyncio.Event()
        self._refuses = refuses

    async def __call__(self, event: EmittedEvent, /, *, deadline: float) -> None:
        self.events.append(event)
        self.deadlines.append(deadline)
        await self.taken.wait()
        if self._refuses:
            raise EventNotSentError(event.event_id, "no.", accepted=False)


def emitting(sink: ToldSink) -> Emitting:
    return Emitting(calendar, Call("c1", "calendar", "move", Request({}), 12345.0, user_id="ada"), sink, time.time)


async def test_an_event_is_sent_when_it_is_awaited_and_by_the_deadline_of_the_call() -> None:
    sink = ToldSink()
    sending = asyncio.ensure_future(emitting(sink)(moved, Moved(to="noon")))
    await asyncio.sleep(0.01)
    assert not sending.done()
    sink.taken.set()
    await sending
    assert [event.data for event in sink.events] == [{"to": "noon"}]
    assert sink.deadlines == [12345.0]


async def test_a_thread_waits_until_its_event_is_sent() -> None:
    sink = ToldSink()
    emit, order = emitting(sink), list[str]()

    def act() -> None:
        _ = emit("moved", {"to": "noon"})
        order.append("returned")

    acting = asyncio.create_task(asyncio.to_thread(act))
    await asyncio.sleep(0.05)
    order.append("taken")
    sink.taken.set()
    await acting
    assert order == ["taken", "returned"]


async def test_a_thread_is_told_that_its_event_was_not_sent() -> None:
    sink = ToldSink(refuses=True)
    sink.taken.set()
    emit = emitting(sink)
    with pytest.raises(EventNotSentError, match="'moved' was not sent: no"):
        _ = await asyncio.to_thread(emit, "moved", {"to": "noon"})


def test_a_thread_that_outlives_the_loop_is_told_so() -> None:
    async def make() -> Emitting:
        return emitting(ToldSink())

    emit = asyncio.run(make())
    raised: list[EventNotSentError] = []

    def act() -> None:
        try:
            _ = emit("moved", {"to": "noon"})
        except EventNotSentError as error:
            raised.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join(10)
    assert [error.accepted for error in raised] == [False]


async def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(EventInvalidError, match="moved") as raised:
        await emitting(ToldSink())(moved, {"to": "x" * MAX_BYTES})
    assert raised.value.issues[0].code == "too_large"
