"""The end of a worker: drained, killed or cut off, it loses no call, and each call still ends once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from grundlag_bus import Completed
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, RunningWorker, on_buses

pytestmark = on_buses
MANY = 20


async def hold_many(host: Host, name: str) -> list[asyncio.Task[Any]]:
    """Start calls that wait at a gate, and return when they run."""
    before = seen.runs[f"hold {name}"]
    calls = [asyncio.create_task(host.execute("hold", {"name": name})) for _ in range(MANY)]
    await eventually(lambda: seen.runs[f"hold {name}"] == before + MANY)
    return calls


async def abort(running: RunningWorker) -> None:
    await running.worker.abort()
    await running.serving


async def close_transport(running: RunningWorker) -> None:
    await running.transport.close()


@pytest.mark.parametrize("die", [abort, close_transport])
async def test_the_calls_of_a_dead_worker_complete_elsewhere(
    host: Host, die: Callable[[RunningWorker], Awaitable[None]]
) -> None:
    calls = await hold_many(host, "orphan")
    await die(host.workers[0])
    await host.add_worker()
    await eventually(lambda: seen.runs["hold orphan"] == 2 * MANY)
    seen.gate("orphan").set()
    assert len({result["name"] for result in await asyncio.gather(*calls)}) == MANY
    assert host.bus_caller.late_replies == 0


async def test_a_dead_worker_says_nothing_more(host: Host) -> None:
    calls = await hold_many(host, "muted")
    await abort(host.workers[0])
    seen.gate("muted").set()
    await asyncio.wait(calls, timeout=0.1)
    assert not any(call.done() for call in calls)
    assert host.bus_caller.late_replies == 0
    await host.add_worker()
    await asyncio.gather(*calls)
    assert host.bus_caller.late_replies == 0


async def test_a_worker_that_drains_finishes_what_runs_and_takes_nothing_more(host: Host) -> None:
    await host.stop_workers()
    draining = await host.add_worker(grace=30)
    calls = await hold_many(host, "drained")
    draining.serving.cancel()
    await asyncio.wait({draining.serving}, timeout=0.05)
    assert not draining.serving.done()
    later = [asyncio.create_task(host.execute("add", {"a": n, "b": 0})) for n in range(MANY)]
    await asyncio.wait(later, timeout=0.05)
    assert not any(call.done() for call in later)
    seen.gate("drained").set()
    await asyncio.gather(*calls)
    await asyncio.wait({draining.serving})
    await host.add_worker()
    assert [result["sum"] for result in await asyncio.gather(*later)] == list(range(MANY))
    assert seen.runs["hold drained"] == MANY
    assert seen.runs["add"] == MANY
    assert host.bus_caller.late_replies == 0


async def test_a_worker_that_drains_beside_another_loses_and_repeats_nothing(host: Host) -> None:
    await host.stop_workers()
    first = await host.add_worker(grace=30)

    async def steady() -> list[int]:
        return [(await host.execute("add", {"a": n, "b": 0}))["sum"] for n in range(50)]

    streams = [asyncio.create_task(steady()) for _ in range(8)]
    await eventually(lambda: seen.runs["add"] > MANY)
    await host.add_worker()
    first.serving.cancel()
    assert await asyncio.gather(*streams) == [list(range(50))] * 8
    assert seen.runs["add"] == 400
    assert host.bus_caller.late_replies == 0


async def test_what_is_not_done_within_the_grace_time_is_done_by_another(host: Host) -> None:
    await host.stop_workers()
    hasty = await host.add_worker(grace=0.05)
    calls = await hold_many(host, "cut short")
    hasty.serving.cancel()
    await asyncio.wait({hasty.serving})
    assert hasty.worker.in_flight == 0
    await host.add_worker()
    await eventually(lambda: seen.runs["hold cut short"] == 2 * MANY)
    seen.gate("cut short").set()
    await asyncio.gather(*calls)
    assert host.bus_caller.late_replies == 0


async def test_a_worker_that_drains_does_not_cut_off_a_thread_within_the_grace_time(host: Host) -> None:
    await host.stop_workers()
    draining = await host.add_worker(grace=30)
    call = asyncio.create_task(host.execute("waitAtGate", {"name": "thread"}))
    await eventually(lambda: seen.runs["waitAtGate thread"])
    draining.serving.cancel()
    await asyncio.wait({draining.serving}, timeout=0.05)
    seen.gate("thread").set()
    await call
    assert seen.runs["waitAtGate thread"] == 1


async def test_a_worker_may_serve_again(host: Host) -> None:
    (running,) = host.workers
    running.serving.cancel()
    await asyncio.wait({running.serving})
    running.serving = asyncio.create_task(running.worker.run())
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    assert (await host.execute("scope"))["same"]


async def test_closing_the_bus_ends_what_waits(host: Host) -> None:
    other = await host.another_bus()
    calls = [asyncio.create_task(other.bus.call("contractHold", {"name": "closed"})) for _ in range(MANY)]
    await eventually(lambda: seen.runs["hold closed"] == MANY)
    await other.bus_caller.close()
    replies = await asyncio.gather(*calls)
    assert {reply.response.to_json().get("code") for reply in replies} == {"outcome_unknown"}
    assert not any(isinstance(reply.response, Completed) for reply in replies)
