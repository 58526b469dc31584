"""A deploy that rolls: an old worker and a new one serve one provider, and only the new one has some action."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog.testing
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    ActionUnknownError,
    DeadlineExceededError,
    Provider,
    ProviderRegistry,
    ToolContext,
    Transport,
    Worker,
)
from grundlag_bus.telemetry import CallSentOn
from grundlag_bus.telemetry.events import Event
from grundlag_bus.workers.announce import announce
from tests.support.eventually import eventually
from tests.support.hosts import Host, RunningWorker, on_buses

pytestmark = on_buses


class Nothing(BaseModel):
    pass


class Done(BaseModel):
    generation_was_first: bool
    attempt: int


def version(*action_ids: str, revision: int = 0) -> ProviderRegistry:
    provider = Provider("notes", name="Notes")

    async def act(_: Nothing, ctx: ActionContext) -> Done:
        """Act."""
        await asyncio.sleep(0.05)
        return Done(generation_was_first=ctx.deferred is None, attempt=ctx.attempt)

    for action_id in action_ids:
        provider.action(action_id, name="Act")(act)
    return ProviderRegistry([provider], revision=revision)


OLD, NEW = ("old",), ("old", "new")


@asynccontextmanager
async def serving(
    host: Host, registry: ProviderRegistry, *, told: list[Event] | None = None
) -> AsyncIterator[RunningWorker]:
    transport, events = host.transport(), [] if told is None else told
    running = await RunningWorker(Worker(transport, registry, concurrency=8, hook=events.append), transport).started()
    try:
        yield running
    finally:
        await running.stop()


async def announced_by(host: Host, registry: ProviderRegistry) -> None:
    """Leave what a worker announces, and no worker."""
    transport: Transport = host.transport()
    await transport.open()
    await announce(transport, registry, worker="w")
    await transport.close()


async def test_every_call_of_a_new_action_completes_whichever_worker_it_comes_to(host: Host) -> None:
    told: list[Event] = []
    async with serving(host, version(*OLD), told=told) as old, serving(host, version(*NEW)):
        tools = await host.bus.to_tools()
        calls = [tools["notesNew"].execute({}, ToolContext(timeout=60)) for _ in range(24)]
        calls += [tools["notesOld"].execute({}) for _ in range(8)]
        results = await asyncio.gather(*calls)
        assert Counter(result["attempt"] for result in results) == {1: 32}, "waiting costs no attempt"
        sent_on = [event for event in told if isinstance(event, CallSentOn)]
        assert sent_on, "the old worker had some of them"
        assert {(event.action_id, event.why) for event in sent_on} == {("new", "absent")}
        await eventually(lambda: not old.worker.in_flight)


async def test_an_old_worker_that_starts_again_takes_no_action_from_a_new_one_that_serves(host: Host) -> None:
    async with serving(host, version(*NEW)):
        with structlog.testing.capture_logs() as logs:
            async with serving(host, version(*OLD)):
                assert {"notesOld", "notesNew"} <= (await host.bus.to_tools()).keys()
        (kept,) = [line for line in logs if line["event"] == "actions_kept"]
        assert kept["actions"] == ["new"]
    async with serving(host, version(*OLD)):
        assert "notesNew" not in await host.bus.to_tools(), "nobody else serves it any more"


async def test_a_call_waits_for_the_first_worker_that_has_its_action(host: Host) -> None:
    async with serving(host, version(*OLD)):
        await announced_by(host, version(*NEW))
        tools = await host.bus.to_tools()
        call = asyncio.create_task(tools["notesNew"].execute({}, ToolContext(timeout=60)))
        await asyncio.wait({call}, timeout=1.5)
        assert not call.done()
        async with serving(host, version(*NEW)):
            assert (await call)["attempt"] == 1


async def test_a_call_that_no_worker_takes_ends_at_its_deadline(host: Host) -> None:
    async with serving(host, version(*OLD)):
        await announced_by(host, version(*NEW))
        tools = await host.bus.to_tools()
        begun = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            await tools["notesNew"].execute({}, ToolContext(timeout=2.5))
        assert 1 < time.monotonic() - begun < 10


async def test_an_action_that_is_announced_no_more_is_unknown(host: Host) -> None:
    await announced_by(host, version(*NEW))
    stale = await host.bus.to_tools()
    async with serving(host, version(*OLD, revision=1)):
        with pytest.raises(ActionUnknownError):
            await stale["notesNew"].execute({})


async def test_a_cancelled_call_waits_for_nobody(host: Host) -> None:
    async with serving(host, version(*OLD)):
        await announced_by(host, version(*NEW))
        tools = await host.bus.to_tools()
        signal = asyncio.Event()
        call = asyncio.create_task(tools["notesNew"].execute({}, ToolContext(timeout=60, signal=signal)))
        await asyncio.sleep(0.5)
        signal.set()
        async with asyncio.timeout(20):
            with pytest.raises(Exception, match="cancelled"):
                await call
