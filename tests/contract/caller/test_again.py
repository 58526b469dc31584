"""Calls that are started more than once because their action says so: after an exception, or after a while."""

from __future__ import annotations

import asyncio
import time

import pytest

from grundlag_bus import (
    AttemptsExhaustedError,
    DeadlineExceededError,
    InternalError,
    ItemStore,
    ToolContext,
)
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses


def starts(action_id: str) -> list[int]:
    return [number for action, _, number in seen.notes if action == action_id]


async def test_an_action_is_started_again_after_an_exception_that_it_declares(host: Host) -> None:
    result = await host.execute("flaky", {"times": 2})
    assert result["attempt"] == 3
    assert starts("flaky") == [1, 2, 3]


async def test_every_start_of_a_call_has_its_id(host: Host) -> None:
    result = await host.execute("flaky", {"times": 2})
    assert {call_id for _, call_id, _ in seen.notes} == {result["call_id"]}


async def test_any_other_exception_ends_the_call_at_once(host: Host) -> None:
    with pytest.raises(InternalError):
        await host.execute("flaky", {"times": 1, "kind": "other"})
    assert starts("flaky") == [1]


@pytest.mark.parametrize(("kind", "code"), [("connection", "internal"), ("told", "busy")])
async def test_after_the_last_attempt_the_caller_is_told_how_often_and_what_was_last(
    host: Host, kind: str, code: str
) -> None:
    with pytest.raises(AttemptsExhaustedError) as raised:
        await host.execute("flaky", {"times": 3, "kind": kind})
    assert raised.value.details["starts"] == 3
    assert raised.value.details["last"]["code"] == code
    assert starts("flaky") == [1, 2, 3]


async def test_only_the_items_of_the_last_attempt_come_back(host: Host) -> None:
    items = ItemStore()
    await host.execute("flaky", {"times": 2}, ToolContext(items=items))
    assert [item.data for item in items.list("attempt")] == [{"number": 3}]


async def test_a_deferred_call_goes_on_with_what_it_kept_and_costs_no_attempt(host: Host) -> None:
    result = await host.execute("later", {"times": 4})
    assert (result["attempt"], result["deferred"]) == (1, {"count": 4})
    assert starts("later") == [0, 1, 2, 3, 4]


async def test_a_deferred_call_waits_as_long_as_it_says(host: Host) -> None:
    began = time.monotonic()
    await host.execute("later", {"times": 1, "after": 1})
    assert time.monotonic() - began >= 1


async def test_a_call_that_defers_past_its_deadline_fails_at_once(host: Host) -> None:
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError, match="deferred"):
        await host.execute("later", {"times": 1, "after": 60}, ToolContext(timeout=50))
    assert time.monotonic() - began < 25
    assert starts("later") == [0]


async def test_a_pause_that_cannot_be_is_a_defect_of_the_action(host: Host) -> None:
    with pytest.raises(InternalError):
        await host.execute("later", {"times": 1, "after": -1})


async def test_a_call_may_be_deferred_by_the_same_time_again_and_again(host: Host) -> None:
    """It passes through the same queues each time, and the broker drops what it takes for a cycle of dead letters."""
    result = await host.execute("later", {"times": 3, "after": 1})
    assert result["deferred"] == {"count": 3}


@on_buses
async def test_a_deferred_call_occupies_no_place_of_its_worker(host: Host) -> None:
    await host.stop_workers()
    (running,) = [await host.add_worker(concurrency=1)]
    waiting = asyncio.create_task(host.execute("later", {"times": 1, "after": 60}, ToolContext(timeout=120)))
    await eventually(lambda: starts("later") == [0])
    assert await host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=10)) == {"sum": 3}
    await eventually(lambda: running.worker.in_flight == 0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
