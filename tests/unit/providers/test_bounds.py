"""The bounds of a part of a task, which no other cancellation is mistaken for."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus.providers.bounds import Bounds, Stop, this_task


async def test_a_deadline_that_passes_cancels_the_task_and_takes_its_cancellation_back() -> None:
    bounds = Bounds(0.01)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert bounds.end() is Stop.DEADLINE
    assert this_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_a_deadline_that_was_ended_never_passes() -> None:
    bounds = Bounds(0.01)
    assert bounds.end() is None
    await asyncio.sleep(0.03)
    assert this_task().cancelling() == 0


async def test_a_cancellation_before_the_deadline_is_not_the_deadlines() -> None:
    bounds = Bounds(10)
    this_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert bounds.end() is None
    assert this_task().uncancel() == 0


async def test_a_cancellation_beside_the_deadline_stands() -> None:
    bounds = Bounds(0.01)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    this_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert bounds.end() is None
    assert this_task().uncancel() == 0


async def test_only_the_first_reason_cancels() -> None:
    bounds = Bounds(0.01)
    bounds.stop(Stop.CANCELLED)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    await asyncio.sleep(0.03)
    assert bounds.end() is Stop.CANCELLED
    assert this_task().cancelling() == 0


async def test_what_has_ended_is_not_stopped() -> None:
    bounds = Bounds(10)
    bounds.end()
    bounds.stop(Stop.CANCELLED)
    await asyncio.sleep(0)
    assert this_task().cancelling() == 0


async def test_a_run_is_idle_when_nothing_touches_it_for_a_while() -> None:
    bounds = Bounds(60, idle=0.05)
    for _ in range(10):
        await asyncio.sleep(0.01)
        bounds.touch()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert bounds.end() is Stop.IDLE
    assert this_task().cancelling() == 0
