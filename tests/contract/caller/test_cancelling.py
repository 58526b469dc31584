"""Cancellation: it reaches the action wherever it runs, ends each call once, and touches nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import CallCancelledError, DeadlineExceededError, OutcomeUnknownError, ToolContext
from grundlag_bus.adapters.bus import RegistryBus
from grundlag_bus.schema.control import Cancel
from grundlag_bus.schema.envelope import Request, new_call_id
from grundlag_bus.transport.base import Message
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses


class Asked:
    """A call on its way, with the signal that cancels it."""

    def __init__(self, host: Host, action: str, input: Any = None, timeout: float = 60) -> None:  # noqa: A002  the wire's word
        self.signal = asyncio.Event()
        context = ToolContext(signal=self.signal, timeout=timeout)
        self.ended = asyncio.create_task(host.execute(action, input, context))

    async def code(self) -> str:
        """Wait for the end; `completed`, or the code of the failure."""
        await asyncio.wait({self.ended})
        error = self.ended.exception()
        return "completed" if error is None else getattr(error, "code", repr(error))


def shorten_grace(host: Host, seconds: float) -> None:
    for bus in (host.bus, host.behind):
        if isinstance(bus, RegistryBus):
            bus._local._cancel_grace = seconds
    for running in host.workers:
        running.worker._serving._cancel_grace = seconds


async def cancel_is_kept(host: Host) -> None:
    """Wait until the bus keeps a cancellation for workers that start later."""
    transport = host.bus.transport
    assert transport is not None
    async with asyncio.timeout(20):
        while not any(body != b"{}" for body in await transport.read(transport.topology.cancels)):  # noqa: ASYNC110  asked
            await asyncio.sleep(0.01)


def published(host: Host) -> int:
    return sum(waiting.published is True for waiting in host.bus_caller._all_waiting())


# --- where the action runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["sleep", "stubborn", "sleepInThread"])
async def test_the_signal_reaches_the_action(host: Host, action: str) -> None:
    asked = Asked(host, action, {"seconds": 30})
    await eventually(lambda: seen.runs[action] == 1)
    asked.signal.set()
    assert await asked.code() == "cancelled"
    assert seen.notes in (["cancelled"], ["swallowed"])


@pytest.mark.parametrize("action", ["sleep", "sleepInThread"])
async def test_cancelling_the_awaiting_coroutine_reaches_the_action(host: Host, action: str) -> None:
    call = asyncio.create_task(host.execute(action, {"seconds": 30}))
    await eventually(lambda: seen.runs[action] == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: seen.notes == ["cancelled"])


async def test_a_call_is_cancelled_only_when_its_action_has_stopped(host: Host) -> None:
    asked = Asked(host, "cleanUp")
    await eventually(lambda: seen.runs["cleanUp"])
    asked.signal.set()
    assert await asked.code() == "cancelled"
    assert seen.notes == ["cleaned up"]


@pytest.mark.parametrize("action", ["deaf", "deafInThread"])
async def test_what_does_not_stop_in_time_has_an_unknown_outcome(host: Host, action: str) -> None:
    shorten_grace(host, 0.1)
    asked = Asked(host, action, {"name": "deaf"})
    await eventually(lambda: seen.runs[action])
    asked.signal.set()
    with pytest.raises(OutcomeUnknownError, match=r"did not stop within 0\.1 s"):
        await asked.ended
    assert not seen.notes
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    seen.gate("deaf").set()
    await eventually(lambda: seen.notes == ["deaf ended"])
    assert seen.runs[action] == 1


async def test_the_error_says_that_it_had_started(host: Host) -> None:
    asked = Asked(host, "sleep", {"seconds": 30})
    await eventually(lambda: seen.runs["sleep"])
    asked.signal.set()
    with pytest.raises(CallCancelledError, match=r"contract\.sleep was cancelled, and has stopped") as raised:
        await asked.ended
    assert raised.value.details == {"published": True}


async def test_what_was_cancelled_before_it_was_sent_does_not_run(host: Host) -> None:
    asked = Asked(host, "sleep", {"seconds": 30})
    asked.signal.set()
    assert await asked.code() == "cancelled"
    assert not seen.runs["sleep"]


async def test_a_call_that_ended_before_the_signal_keeps_its_end(host: Host) -> None:
    asked = Asked(host, "add", {"a": 1, "b": 2})
    assert await asked.code() == "completed"
    asked.signal.set()
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_a_signal_at_the_moment_of_completion_gives_one_outcome(host: Host) -> None:
    for turns in range(30):
        asked = Asked(host, "hold", {"name": f"race {turns}"})
        await eventually(lambda: seen.runs[f"hold race {turns}"])  # noqa: B023  awaited at once
        seen.gate(f"race {turns}").set()
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.signal.set()
        assert await asked.code() in ("completed", "cancelled")
        assert seen.runs[f"hold race {turns}"] == 1


async def test_cancelling_ends_the_pause_before_another_start(host: Host) -> None:
    asked = Asked(host, "later", {"times": 1, "after": 1})
    await eventually(lambda: len(seen.notes) == 1)
    asked.signal.set()
    assert await asked.code() == "cancelled"
    assert len(seen.notes) == 1


async def test_a_call_that_was_started_once_says_so_when_it_is_cancelled_before_its_next_start(host: Host) -> None:
    asked = Asked(host, "later", {"times": 1, "after": 1})
    await eventually(lambda: len(seen.notes) == 1)
    asked.signal.set()
    with pytest.raises(CallCancelledError, match="and has stopped") as raised:
        await asked.ended
    assert raised.value.details == {"published": True}


async def test_an_answer_whose_signal_is_set_before_does_not_run(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    signal = asyncio.Event()
    signal.set()
    with pytest.raises(CallCancelledError):
        await host.tool("ask").resume(interrupt, {"approved": True}, ToolContext(signal=signal))
    await asyncio.sleep(0.02)
    assert not seen.runs["ask"]


async def test_cancelling_touches_no_neighbour(host: Host) -> None:
    neighbour = asyncio.create_task(host.execute("hold", {"name": "neighbour"}))
    asked = Asked(host, "sleep", {"seconds": 30})
    await eventually(lambda: seen.runs["sleep"] and seen.runs["hold neighbour"])
    asked.signal.set()
    assert await asked.code() == "cancelled"
    seen.gate("neighbour").set()
    await neighbour


async def test_the_deadline_still_ends_a_call_with_a_signal(host: Host) -> None:
    asked = Asked(host, "sleep", {"seconds": 30}, timeout=0.1)
    with pytest.raises(DeadlineExceededError):
        await asked.ended


# --- over a bus -------------------------------------------------------------------------------------------------------


@on_buses
async def test_a_call_that_still_waits_in_its_queue_does_not_start(host: Host) -> None:
    await host.stop_workers()
    asked = Asked(host, "sleep", {"seconds": 30})
    neighbour = asyncio.create_task(host.execute("add", {"a": 1, "b": 2}))
    await eventually(lambda: published(host) == 2)
    asked.signal.set()
    await cancel_is_kept(host)
    await host.add_worker()
    assert await asked.code() == "cancelled"
    assert await neighbour == {"sum": 3}
    assert not seen.runs["sleep"]


@on_buses
async def test_a_call_whose_caller_is_gone_does_not_start(host: Host) -> None:
    await host.stop_workers()
    other = await host.another_bus()
    call = asyncio.create_task(other.execute("sleep", {"seconds": 30}))
    await eventually(lambda: published(other) == 1)
    call.cancel()
    await asyncio.wait({call})
    await cancel_is_kept(other)
    await host.add_worker()
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    assert not seen.runs["sleep"]


@on_buses
async def test_closing_the_bus_first_sends_what_was_cancelled(host: Host) -> None:
    other = await host.another_bus()
    call = asyncio.create_task(other.execute("sleep", {"seconds": 30}))
    await eventually(lambda: seen.runs["sleep"])
    call.cancel()
    await asyncio.wait({call})
    await other.bus_caller.close()
    await eventually(lambda: seen.notes == ["cancelled"])


@on_buses
async def test_a_stale_cancellation_touches_nothing(host: Host) -> None:
    transport = host.bus.transport
    assert transport is not None
    for call_id in (new_call_id(), "no id at all", ""):
        message = Message(Cancel(call_id, transport.now()).encode(), "cancel")
        await transport.publish(transport.topology.control_route("cancel"), message, deadline=transport.now() + 10)
    for body in (b"", b"{}", b"[]", b'{"v": 1}', b'{"v": 99, "callId": "x", "at": "2026-01-01T00:00:00Z"}'):
        message = Message(body, "cancel")
        await transport.publish(transport.topology.control_route("cancel"), message, deadline=transport.now() + 10)
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    await host.add_worker()
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


@on_buses
async def test_a_cancellation_outlives_the_worker_that_heard_it(host: Host) -> None:
    """A call that is delivered again after its worker was killed does not start, since it was cancelled meanwhile."""
    asked = Asked(host, "hold", {"name": "held"})
    await eventually(lambda: seen.runs["hold held"])
    (running,) = host.workers
    for run in list(running.worker._serving.started):
        run.mute()
    asked.signal.set()
    await cancel_is_kept(host)
    await host.stop_workers()
    await host.add_worker()
    assert host.bus.transport is not None
    known = host.bus.transport.broker.counts_only_losses  # where it was given back by a worker that was not lost
    assert await asked.code() == ("cancelled" if known else "outcome_unknown")
    assert seen.runs["hold held"] == 1


@on_buses
async def test_a_cancelled_call_whose_worker_was_lost_has_an_unknown_outcome(host: Host) -> None:
    """The worker may live where the broker does not see it, and the action may run on."""
    asked = Asked(host, "hold", {"name": "lost"})
    await eventually(lambda: seen.runs["hold lost"])
    (running,) = host.workers
    await running.kill()
    asked.signal.set()
    await cancel_is_kept(host)
    host.workers.clear()
    await host.add_worker()
    assert await asked.code() == "outcome_unknown"
    assert seen.runs["hold lost"] == 1


@on_buses
async def test_every_worker_hears_of_it_and_one_replies(host: Host) -> None:
    for _ in range(2):
        await host.add_worker()
    asked = [Asked(host, "sleep", {"seconds": 30}) for _ in range(9)]
    await eventually(lambda: seen.runs["sleep"] == 9)
    for each in asked[::2]:
        each.signal.set()
    assert [await each.code() for each in asked[::2]] == ["cancelled"] * 5
    assert seen.notes == ["cancelled"] * 5
    for each in asked[1::2]:
        each.signal.set()
    assert [await each.code() for each in asked[1::2]] == ["cancelled"] * 4
    assert host.bus_caller.late_replies == 0


@on_buses
async def test_a_cancelled_call_id_stays_cancelled(host: Host) -> None:
    from grundlag_bus import Call  # noqa: PLC0415  only here

    transport = host.bus.transport
    assert transport is not None
    call = Call(new_call_id(), "contract", "echo", Request({"value": 1}), transport.now() + 60)
    message = Message(Cancel(call.call_id, transport.now()).encode(), "cancel")
    await transport.publish(transport.topology.control_route("cancel"), message, deadline=transport.now() + 10)
    (running,) = host.workers
    await eventually(lambda: call.call_id in running.worker._serving._cancelled)
    for _ in range(2):
        reply = await host.bus_caller.call(call)
        assert reply.response.to_json()["code"] == "cancelled"
        assert reply.response.to_json()["details"] == {"published": False}
    assert not seen.runs["echo"]
