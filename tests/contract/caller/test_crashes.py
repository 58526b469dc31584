"""Workers die: a call that kills them is given up, and costs nobody beside it more than a repetition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import (
    AttemptsExhaustedError,
    CallCancelledError,
    DeadlineExceededError,
    OutcomeUnknownError,
    ToolContext,
)
from grundlag_bus.workers.lone_starts import LoneStarts
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.transports import Inbox, reconnect

pytestmark = on_buses


def runs(name: str) -> int:
    return seen.runs[f"hold {name}"]


async def held(host: Host, *names: str, action: str = "hold", **context: Any) -> list[asyncio.Task[Any]]:
    """Start calls that wait at gates, and return when they run."""
    before = {name: runs(name) for name in names}
    calls = [
        asyncio.create_task(host.execute(action, {"name": name}, ToolContext(**context) if context else None))
        for name in names
    ]
    await eventually(lambda: all(runs(name) == before[name] + 1 for name in names))
    return calls


async def replaced(host: Host, **options: Any) -> None:
    """Kill the worker and start another one."""
    await host.kill_worker()
    await host.add_worker(**options)


def needs_counts(host: Host) -> None:
    """Skip where the broker counts what is given back, so that no budget is kept: before RabbitMQ 4.3."""
    transport = host.bus.transport
    assert transport is not None
    if not transport.broker.counts_only_losses:
        pytest.skip(f"{transport.broker} counts what is given back, so that no budget is kept")


async def lost_twice(host: Host, *names: str, **context: Any) -> list[asyncio.Task[Any]]:
    """Start calls and lose their workers, until each has one start left and no worker is there."""
    needs_counts(host)
    calls = await held(host, *names, **context)
    await replaced(host)
    await eventually(lambda: all(runs(name) == 2 for name in names))
    await host.kill_worker()
    return calls


async def test_a_call_that_loses_its_workers_is_given_up_after_three_starts(host: Host) -> None:
    (call,) = await lost_twice(host, "poison")
    await host.add_worker()
    await eventually(lambda: runs("poison") == 3)
    await replaced(host)
    with pytest.raises(AttemptsExhaustedError) as raised:
        await call
    details = raised.value.details
    assert (details["starts"], details["lost"]) == (3, 3)
    assert f", in {details['lastWorker']}: " in str(raised.value)
    assert runs("poison") == 3


@pytest.mark.parametrize(("action", "starts"), [("holdFrail", 1), ("holdTwice", 2)])
async def test_an_action_says_how_many_starts_it_has(host: Host, action: str, starts: int) -> None:
    needs_counts(host)
    (call,) = await held(host, "poison", action=action)
    for start in range(1, starts):
        await replaced(host)
        await eventually(lambda start=start: runs("poison") == start + 1)  # type: ignore[misc]  # a loop's variable
    await replaced(host)
    with pytest.raises(AttemptsExhaustedError):
        await call
    assert runs("poison") == starts


async def test_who_was_beside_a_call_that_kills_its_workers_completes(host: Host) -> None:
    names = [f"innocent{n}" for n in range(5)]
    poison, *innocent = await lost_twice(host, "poison", *names)
    for name in names:
        seen.gate(name).set()
    await host.add_worker()
    await eventually(lambda: runs("poison") == 3)
    await replaced(host)
    with pytest.raises(AttemptsExhaustedError):
        await poison
    await asyncio.gather(*innocent)
    assert {runs(name) for name in ("poison", *names)} == {3}


async def test_the_last_start_has_nothing_beside_it(host: Host) -> None:
    (last,) = await lost_twice(host, "last")
    await host.add_worker()
    await eventually(lambda: runs("last") == 3)
    others = [asyncio.create_task(host.execute("add", {"a": n, "b": 0})) for n in range(5)]
    await asyncio.sleep(0.2)
    assert seen.runs["add"] == 0
    seen.gate("last").set()
    await asyncio.gather(last, *others)


async def waiting(host: Host, *names: str, **context: Any) -> tuple[list[asyncio.Task[Any]], asyncio.Task[Any]]:
    """Have calls wait for their last start in a worker where another call runs. Returns them, and that other call."""
    needs_counts(host)
    await host.stop_workers()
    await host.add_worker(concurrency=len(names))
    last = await held(host, *names, **context)
    await host.kill_worker()
    await host.add_worker(concurrency=len(names))
    await eventually(lambda: all(runs(name) == 2 for name in names))
    await host.add_worker(grace=0)
    (other,) = await held(host, "other")  # the worker before has no room for it
    await host.kill_worker()
    await eventually(lambda: host.workers[0].worker.in_flight == len(names) + 1)
    return last, other


async def test_a_last_start_waits_for_what_runs(host: Host) -> None:
    (last,), other = await waiting(host, "last")
    await asyncio.sleep(0.1)
    assert runs("last") == 2
    seen.gate("other").set()
    await other
    await eventually(lambda: runs("last") == 3)
    seen.gate("last").set()
    await last


async def test_nobody_is_deaf_while_a_last_start_waits(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grundlag_bus.workers.alone.FIRST_WAIT", 0.1)
    (last,), other = await waiting(host, "last")
    for n in range(5):
        assert await host.execute("add", {"a": n, "b": 0}) == {"sum": n}
        await asyncio.sleep(0.1)
    assert runs("last") == 2
    seen.gate("other").set()
    await eventually(lambda: runs("last") == 3)
    seen.gate("last").set()
    await asyncio.gather(other, last)


async def test_a_last_start_that_waits_ends_at_its_deadline(host: Host) -> None:
    (last,), other = await waiting(host, "last", timeout=3.0)
    with pytest.raises(DeadlineExceededError) as raised:
        await last
    assert raised.value.details == {"published": True}
    assert runs("last") == 2
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    seen.gate("other").set()
    await other


async def test_a_last_start_that_waits_can_be_cancelled(host: Host) -> None:
    cancel = asyncio.Event()
    (last,), other = await waiting(host, "last", signal=cancel)
    cancel.set()
    with pytest.raises(CallCancelledError):
        await last
    assert runs("last") == 2
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    seen.gate("other").set()
    await other


async def test_a_worker_that_drains_gives_back_what_waits_for_its_last_start(host: Host) -> None:
    (last,), other = await waiting(host, "last")
    draining = host.workers.pop(0)
    draining.worker._grace = 30.0
    draining.serving.cancel()
    await eventually(lambda: draining.worker.in_flight == 1)
    await host.add_worker()
    await eventually(lambda: runs("last") == 3)
    seen.gate("last").set()
    await last
    seen.gate("other").set()
    await other
    await draining.stop()


async def test_a_last_start_that_waits_and_comes_again_is_adopted(host: Host) -> None:
    (last,), other = await waiting(host, "last")
    await reconnect(host.workers[0].transport)
    await asyncio.sleep(0.3)
    assert host.workers[0].worker.in_flight == 2
    seen.gate("other").set()
    await eventually(lambda: runs("last") == 3)
    seen.gate("last").set()
    await asyncio.gather(last, other)
    assert (runs("last"), runs("other")) == (3, 1)


async def test_who_waits_for_its_last_start_is_not_given_up_for_what_kills_the_worker_meanwhile(host: Host) -> None:
    (last,), other = await waiting(host, "last")
    await replaced(host)
    seen.gate("other").set()
    seen.gate("last").set()
    await asyncio.gather(last, other)
    assert (runs("last"), runs("other")) == (3, 2)


async def test_a_last_start_that_was_made_elsewhere_meanwhile_is_not_made_again(host: Host) -> None:
    """Its connection is lost while it waits, another worker starts it alone and dies, and it comes back."""
    (last,), other = await waiting(host, "last")
    worker = host.workers[0].worker
    (run,) = [run for run in worker._serving.runs.values() if not run.begun]
    await LoneStarts(host.workers[0].transport, "another").note(run.call, lost=3, within=5)
    run.lost = 4
    seen.gate("other").set()
    with pytest.raises(AttemptsExhaustedError):
        await last
    await other
    assert runs("last") == 2


async def test_a_last_start_that_is_lost_while_it_waits_is_made_by_whoever_has_it_then_alone(host: Host) -> None:
    (last,), other = await waiting(host, "last")
    before, after = host.workers[0], await host.add_worker()
    await reconnect(before.transport)
    await eventually(lambda: after.worker.in_flight == 2)
    seen.gate("other").set()
    await other
    await eventually(lambda: runs("last") == 3)
    await eventually(lambda: before.worker.in_flight == 0)
    assert runs("last") == 3
    seen.gate("last").set()
    await last


async def test_last_starts_wait_for_each_other(host: Host) -> None:
    names = ("a", "b", "c")
    last, other = await waiting(host, *names)
    seen.gate("other").set()
    await other
    for done in range(3):
        await eventually(lambda done=done: [runs(name) for name in names].count(3) == done + 1)  # type: ignore[misc]  # a loop's variable
        await asyncio.sleep(0.05)
        assert [runs(name) for name in names].count(3) == done + 1
        next(seen.gate(name) for name in names if runs(name) == 3 and not seen.gate(name).is_set()).set()
    await asyncio.gather(*last)


async def test_a_worker_is_not_deaf_beside_a_last_start_that_does_not_end(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.workers.alone.LONGEST_ALONE", 0.3)
    (last,) = await lost_twice(host, "last")
    await host.add_worker()
    await eventually(lambda: runs("last") == 3)
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    assert not last.done()
    seen.gate("last").set()
    await last


async def test_a_last_start_that_is_cancelled_ends_the_pause(host: Host) -> None:
    cancel = asyncio.Event()
    (last,) = await lost_twice(host, "last", signal=cancel)
    await host.add_worker()
    await eventually(lambda: runs("last") == 3)
    cancel.set()
    with pytest.raises(CallCancelledError):
        await last
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_a_last_start_that_is_given_back_is_made_by_another(host: Host) -> None:
    (last,) = await lost_twice(host, "last")
    for starts in (3, 4):
        await host.add_worker(grace=0)
        await eventually(lambda starts=starts: runs("last") == starts)  # type: ignore[misc]  # a loop's variable
        await host.workers.pop(0).stop()
    seen.gate("last").set()
    await host.add_worker()
    await last


async def test_a_last_start_that_comes_again_while_it_runs_is_adopted(host: Host) -> None:
    (last,) = await lost_twice(host, "last")
    running = await host.add_worker()
    await eventually(lambda: runs("last") == 3)
    await reconnect(running.transport)
    await asyncio.sleep(0.3)
    seen.gate("last").set()
    await last
    assert runs("last") == 3
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_connections_that_are_lost_cost_a_running_call_nothing(host: Host) -> None:
    """As when another action blocks the loop for too long: the call runs on, and is adopted before all else."""
    (running,) = host.workers
    calls = [*await held(host, "calm"), *await held(host, "once", action="holdOnce")]
    calls += await held(host, "frail", action="holdFrail")
    for _ in range(4):
        await reconnect(running.transport)
        await asyncio.sleep(0.1)
    for name in ("calm", "once", "frail"):
        seen.gate(name).set()
    await asyncio.gather(*calls)
    assert [runs(name) for name in ("calm", "once", "frail")] == [1, 1, 1]


# --- never started twice ----------------------------------------------------------------------------------------------


async def test_what_may_not_be_started_again_has_an_unknown_outcome_when_its_worker_dies(host: Host) -> None:
    (call,) = await held(host, "once", action="holdOnce")
    await replaced(host)
    with pytest.raises(OutcomeUnknownError):
        await call
    assert runs("once") == 1


async def test_what_may_not_be_started_again_has_an_unknown_outcome_when_its_worker_stops(host: Host) -> None:
    (call,) = await held(host, "once", action="holdOnce")
    await host.workers.pop(0).stop()
    with pytest.raises(OutcomeUnknownError):
        await call
    await host.add_worker()
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    assert runs("once") == 1


async def test_what_may_not_be_started_again_is_finished_within_the_grace_time(host: Host) -> None:
    await host.stop_workers()
    draining = await host.add_worker(grace=30)
    (call,) = await held(host, "once", action="holdOnce")
    draining.serving.cancel()
    await asyncio.sleep(0.05)
    seen.gate("once").set()
    assert await call == {"name": "once"}


async def test_what_may_not_be_started_again_is_started_after_it_was_given_back(host: Host) -> None:
    needs_counts(host)
    await host.stop_workers()
    peer, inbox = host.transport(), Inbox()
    await peer.open()
    call = asyncio.create_task(host.execute("holdOnce", {"name": "once"}))
    await peer.subscribe(peer.topology.call_queue("contract", "main"), inbox, prefetch=1)
    await inbox.holds(1)
    await peer.close()
    await host.add_worker()
    seen.gate("once").set()
    assert await call == {"name": "once"}
