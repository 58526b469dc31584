"""Calls side by side."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus import ActionFailed, ToolInterrupt, gather_outcomes


async def _complete() -> int:
    await asyncio.sleep(0.01)
    return 1


async def _fail() -> int:
    raise ActionFailed("sold_out", "None left.")


async def _ask() -> int:
    raise ToolInterrupt("Sure?")


async def test_each_call_runs_to_its_own_end_in_order() -> None:
    asked, failed, completed, asked_too = await gather_outcomes(_ask(), _fail(), _complete(), _ask())
    assert (asked.status, asked.interrupt.message if asked.interrupt else None) == ("interrupted", "Sure?")
    assert (failed.status, type(failed.error)) == ("failed", ActionFailed)
    assert (completed.status, completed.value, completed.error, completed.interrupt) == ("completed", 1, None, None)
    assert asked_too.interrupt is not asked.interrupt
    assert await gather_outcomes() == []


async def test_calls_run_at_the_same_time() -> None:
    meeting = asyncio.Barrier(3)

    async def meet() -> None:
        await meeting.wait()

    async with asyncio.timeout(5):
        assert [outcome.status for outcome in await gather_outcomes(meet(), meet(), meet())] == ["completed"] * 3


async def test_cancelling_cancels_them_all() -> None:
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    gathering = asyncio.create_task(gather_outcomes(wait(1), _ask(), wait(2)))
    await asyncio.sleep(0.01)
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert sorted(cancelled) == [1, 2]
