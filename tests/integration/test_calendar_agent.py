"""The demo's calendar, worked on by an agent that asks before it deletes: the same in process and over the bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import Bus, ItemStore, RabbitTransport, ToolContext, ToolInterrupt, Worker, connect, testing
from grundlag_bus.agent import AgentRun, AgentTools, ScriptedModel
from grundlag_bus.demo import registry
from grundlag_bus.demo.calendar_agent import SCRIPT, calendar_model
from grundlag_bus.demo.deployment import sample_calendar
from grundlag_bus.sandbox.script import Sandbox
from tests.support.agents import assert_whole, only
from tests.support.gateway import open_gateway
from tests.support.hosts import HOSTS, RunningWorker
from tests.support.timeless import timeless


@asynccontextmanager
async def bus_of(kind: str, folder: Path, url: str, namespace: str) -> AsyncIterator[Bus]:
    """Open a bus with the demo behind it, on a database in the folder."""
    if kind == "in-process":
        async with connect(registry(folder)) as bus:
            yield bus
    elif kind == "memory":
        async with testing.memory_bus(registry(folder)) as bus:
            yield bus
    elif kind == "http":
        async with open_gateway(connect(registry(folder))) as gateway, connect(gateway.url) as bus:
            yield bus
    else:
        transport = RabbitTransport(url, namespace=namespace)
        worker = await RunningWorker(Worker(transport, registry(folder), concurrency=8), transport).started()
        try:
            async with connect(url, namespace=namespace) as bus:
                yield bus
        finally:
            await worker.stop()


async def play(kind: str, folder: Path, url: str, namespace: str, *, approved: bool) -> Any:
    async with bus_of(kind, folder, url, namespace) as bus:
        model = ScriptedModel(calendar_model(sample_calendar()))
        run = AgentRun(model, AgentTools(await bus.to_tools()), user_id="ada")
        asked = await run.send("Import my week and add the review. What clashes?")
        assert asked.pending[0].message == 'Delete "Review" (2026-09-18T14:30:00+02:00)?'
        ended = await run.answer({only(asked): {"approved": approved}})
        assert (ended.status, ended.text) == ("completed", f"Deleted: {approved}.")
        assert [item.type for item in run.transcript.items.list()] == ["calendarImport", "calendarEvent"]
        assert_whole(run.transcript)
        return timeless(run.to_json())


@pytest.mark.parametrize("approved", [True, False])
async def test_an_agent_imports_a_calendar_finds_a_clash_and_asks_before_it_deletes(
    tmp_path: Path, amqp_url: str, namespace: str, approved: bool
) -> None:
    first, *others = [await play(kind, tmp_path / kind, amqp_url, namespace, approved=approved) for kind in HOSTS]
    assert len(first["transcript"]["records"]) == 7
    for other in others:
        assert other == first


async def run_script(kind: str, folder: Path, url: str, namespace: str) -> Any:
    async with bus_of(kind, folder, url, namespace) as bus:
        sandbox = Sandbox(await bus.to_tools())
        context = ToolContext(user_id="ada", items=ItemStore())
        with pytest.raises(ToolInterrupt) as raised:
            await sandbox.run(SCRIPT, inputs={"ics": sample_calendar()}, context=context)
        (asked,) = raised.value.pending
        assert asked.message == 'Delete "Review" (2026-09-18T14:30:00+02:00)?'
        result = await sandbox.resume(raised.value, {str(asked.interrupt_id): {"approved": True}}, context=context)
        assert result.value == {"imported": 6, "clashes": 1, "deleted": 1}
        return [[call.function, call.status, call.value] for call in result.calls], result.stdout


async def test_a_script_does_the_same_wherever_the_tools_are(tmp_path: Path, amqp_url: str, namespace: str) -> None:
    first, *others = [await run_script(kind, tmp_path / kind, amqp_url, namespace) for kind in HOSTS]
    assert first[1] == "Review begins before the event in front of it has ended.\n"
    for other in others:
        assert (timeless(other[0]), other[1]) == (timeless(first[0]), first[1])
