"""Work that is shared by all who ask for the same at the same time."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus.providers.sharing import Sharing
from tests.support.eventually import eventually


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = False
        self.gate = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            await asyncio.sleep(0.01)
            raise
        return number


async def test_what_runs_is_shared_and_what_has_ended_is_begun_anew() -> None:
    sharing: Sharing[int] = Sharing()
    work = Work()
    asked = [asyncio.create_task(sharing.share("a", work)) for _ in range(3)]
    other = asyncio.create_task(sharing.share("b", work))
    await eventually(lambda: work.begun == 2)
    work.gate.set()
    assert await asyncio.gather(*asked) == [1, 1, 1]
    assert await other == 2
    assert await sharing.share("a", work) == 3


async def test_work_goes_on_while_somebody_waits_for_it() -> None:
    sharing: Sharing[int] = Sharing()
    work = Work()
    first, second = [asyncio.create_task(sharing.share("a", work)) for _ in range(2)]
    await eventually(lambda: work.begun == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not work.cancelled
    work.gate.set()
    assert await second == 1


async def test_the_last_one_who_leaves_cancels_the_work_and_sees_it_end() -> None:
    sharing: Sharing[int] = Sharing()
    work = Work()
    asked = [asyncio.create_task(sharing.share("a", work)) for _ in range(2)]
    await eventually(lambda: work.begun == 1)
    for each in asked:
        each.cancel()
    await asyncio.wait(asked)
    assert work.cancelled
    assert not asyncio.all_tasks() - {asyncio.current_task()}
    work.gate.set()
    assert await sharing.share("a", work) == 2


async def test_everybody_gets_what_the_work_raises() -> None:
    async def fail() -> int:
        await asyncio.sleep(0)
        raise LookupError

    sharing: Sharing[int] = Sharing()
    for ended in await asyncio.gather(*(sharing.share("a", fail) for _ in range(2)), return_exceptions=True):
        assert isinstance(ended, LookupError)
