"""A deadline over a part of a task, which no other cancellation is mistaken for."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus.providers.deadline import Deadline, this_task


async def test_a_deadline_that_passes_cancels_the_task_and_takes_its_cancellation_back() -> None:
    deadline = Deadline(0.01)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert deadline.end()
    assert this_task().cancelling() == 0
    await asyncio.sleep(0)


async def test_a_deadline_that_was_ended_never_passes() -> None:
    deadline = Deadline(0.01)
    assert not deadline.end()
    await asyncio.sleep(0.03)
    assert this_task().cancelling() == 0


async def test_a_cancellation_before_the_deadline_is_not_the_deadlines() -> None:
    deadline = Deadline(10)
    this_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert not deadline.end()
    assert this_task().uncancel() == 0


async def test_a_cancellation_beside_the_deadline_stands() -> None:
    deadline = Deadline(0.01)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    this_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(10)
    assert not deadline.end()
    assert this_task().uncancel() == 0
