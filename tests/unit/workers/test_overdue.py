"""Actions that go on although they were ended are started nowhere else, and their callers hear of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import structlog.testing
from pydantic import BaseModel

from grundlag_bus import (
    BusCaller,
    Call,
    Completed,
    Failed,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    Request,
    Worker,
)
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.transport import MemoryBus, Message
from grundlag_bus.transport.topology import Route
from grundlag_bus.workers import lanes, overdue
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker


class Nothing(BaseModel):
    pass


@pytest.mark.parametrize(
    ("action", "code", "details"),
    [
        ("thread", "deadline_exceeded", {"published": True, "limit": 0.1}),
        ("deaf", "outcome_unknown", {"published": True}),
    ],
)
async def test_what_goes_on_after_its_end_is_settled_before_the_broker_takes_it_back(
    monkeypatch: pytest.MonkeyPatch, action: str, code: str, details: object
) -> None:
    monkeypatch.setattr(lanes, "AFTER_LIMIT", 30.0)
    monkeypatch.setattr(overdue, "BEFORE", 29.5)
    monkeypatch.setattr(overdue, "BETWEEN_LOOKS", 0.01)
    gate = threading.Event()
    starts: list[str] = []
    provider = Provider("notes", name="Notes")

    @provider.action("thread", name="Work in a thread")
    def thread(_: Nothing) -> None:
        starts.append("thread")
        gate.wait(60)

    @provider.action("deaf", name="Swallow cancellations")
    async def deaf(_: Nothing) -> None:
        starts.append("deaf")
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)

    bus = MemoryBus()
    transport, beside = MemoryTransport(bus=bus), MemoryTransport(bus=bus)
    running = await RunningWorker(
        Worker(transport, ProviderRegistry([provider]), limits={"main": 0.1}), transport
    ).started()
    await beside.open()
    caller = BusCaller(beside)
    await caller.open()
    call = Call(new_call_id(), "notes", action, Request({}), time.time() + 600)
    with structlog.testing.capture_logs() as logs:
        reply = await caller.call(call)
        assert isinstance(reply.response, Failed)
        assert (reply.response.code, reply.response.details) == (code, details)
        (run,) = running.worker._serving.started
        await eventually(lambda: run.settled)
    assert [line["call_id"] for line in logs if line["event"] == "action_goes_on"] == [call.call_id]
    gate.set()
    await eventually(lambda: not running.worker.in_flight)
    assert starts == [action]
    assert caller.late_replies == 0
    await caller.close()
    await beside.close()
    await running.stop()
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_what_has_ended_is_not_settled_before_the_broker_has_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "AFTER_LIMIT", 30.0)
    monkeypatch.setattr(overdue, "BEFORE", 60.0)
    monkeypatch.setattr(overdue, "BETWEEN_LOOKS", 0.001)
    confirm = asyncio.Event()

    class Slow(MemoryTransport):
        """Confirms a reply when it is told to."""

        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            if message.type == "reply":
                await confirm.wait()
            await super().publish(route, message, deadline=deadline, written=written)

    provider = Provider("notes", name="Notes")

    @provider.action("quick", name="Quick")
    async def quick(_: Nothing) -> None: ...

    transport = Slow()
    running = await RunningWorker(
        Worker(transport, ProviderRegistry([provider]), limits={"main": 1}), transport
    ).started()
    caller = BusCaller(transport)
    await caller.open()
    call = Call(new_call_id(), "notes", "quick", Request({}), time.time() + 600)
    waiting = asyncio.create_task(caller.call(call))
    await eventually(lambda: any(run.over for run in running.worker._serving.started))
    (run,) = running.worker._serving.started
    await asyncio.sleep(0.02)
    assert not run.settled
    confirm.set()
    assert (await waiting).response == Completed(None)
    await caller.close()
    await running.stop()
