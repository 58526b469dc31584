"""Running: threads, context variables, and services, each as long as its call."""

from __future__ import annotations

import asyncio
import threading

from tests.support.contract_registry import seen, variable
from tests.support.eventually import eventually
from tests.support.hosts import Host


async def test_a_sync_action_blocks_nobody(host: Host) -> None:
    waiting = asyncio.create_task(host.execute("waitAtGate", {"name": "sync"}))
    await eventually(lambda: seen.runs["waitAtGate sync"])
    await host.execute("openGate", {"name": "sync"})
    await waiting


async def test_sync_actions_run_side_by_side(host: Host) -> None:
    names = [f"sync {n}" for n in range(16)]
    waiting = [asyncio.create_task(host.execute("waitAtGate", {"name": name})) for name in names]
    await eventually(lambda: all(seen.runs[f"waitAtGate {name}"] for name in names))
    for name in names:
        seen.gate(name).set()
    await asyncio.gather(*waiting)


async def test_calls_of_one_caller_run_at_the_same_time(host: Host) -> None:
    calls = [asyncio.create_task(host.execute("hold", {"name": "together"})) for _ in range(32)]
    await eventually(lambda: seen.runs["hold together"] == 32)
    seen.gate("together").set()
    assert len({result["name"] for result in await asyncio.gather(*calls)}) == 32


async def test_a_sync_action_runs_in_a_thread_with_the_context_variables_of_its_call(host: Host) -> None:
    token = variable.set("of the caller")
    try:
        in_loop, in_thread = await host.execute("where"), await host.execute("whereInThread")
    finally:
        variable.reset(token)
    here = threading.current_thread().name
    assert in_loop["thread"] == here
    assert in_thread["thread"] != here
    assert in_loop["variable"] == in_thread["variable"]


async def test_a_call_runs_under_the_context_variables_of_its_own_side(host: Host) -> None:
    token = variable.set("of the caller")
    try:
        told = await host.execute("where")
    finally:
        variable.reset(token)
    assert told["variable"] == ("of the caller" if host.kind == "in-process" else "of the worker")


async def test_a_context_variable_that_an_action_sets_reaches_no_other_call(host: Host) -> None:
    names = [str(n) for n in range(20)]
    results = await asyncio.gather(*(host.execute("setInThread", {"name": name}) for name in names))
    assert [result["name"] for result in results] == names


async def test_one_scope_per_call_and_what_its_services_set_is_seen_by_the_action(host: Host) -> None:
    first, second = await host.execute("scope"), await host.execute("scope")
    assert first["same"]
    assert second["same"]
    assert second["number"] == first["number"] + 1
    assert first["seen"] == f"call {first['number']}"
    assert seen.notes == [f"closed {first['number']}", f"closed {second['number']}"]


async def test_calls_side_by_side_share_no_scope(host: Host) -> None:
    told = await asyncio.gather(*(host.execute("scope") for _ in range(20)))
    assert len({each["number"] for each in told}) == 20
    assert all(each["seen"] == f"call {each['number']}" for each in told)
