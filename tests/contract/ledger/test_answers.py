"""An interrupt is consumed once, by its first valid answer."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select

from grundlag_bus import AnswerConflictError, AnswerInvalidError, Store, ToolContext
from grundlag_bus.store.tables import answers
from tests.support.contract_registry import seen
from tests.support.hosts import Host, on_buses

pytestmark = on_buses

YES, NO = {"approved": True}, {"approved": False}


async def test_the_same_answer_a_hundred_times_at_once_is_one_run_with_one_result(host: Host) -> None:
    await host.add_worker()
    others = [await host.another_bus() for _ in range(4)]
    interrupt = await host.interrupt("ask", {"id": "x"})
    asked = [
        (others[number % 4] if number % 5 else host).tool("ask").resume(interrupt, YES, ToolContext())
        for number in range(100)
    ]
    results = await asyncio.gather(*asked)
    assert seen.runs["ask"] == 1
    assert all(result == results[0] for result in results)


async def test_the_same_answer_later_gives_the_same_result(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "x"})
    first = await host.tool("ask").resume(interrupt, YES, ToolContext())
    await host.stop_workers()
    await host.add_worker()
    assert await host.tool("ask").resume(interrupt, YES, ToolContext()) == first
    assert seen.runs["ask"] == 1


async def test_another_answer_is_a_conflict_and_does_not_run(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "x"})
    await host.tool("ask").resume(interrupt, NO, ToolContext())
    for _ in range(2):
        with pytest.raises(AnswerConflictError, match="was answered before, with something else"):
            await host.tool("ask").resume(interrupt, YES, ToolContext())
    assert seen.runs["ask"] == 1


async def test_of_two_answers_at_once_one_counts(host: Host) -> None:
    await host.add_worker()
    interrupt = await host.interrupt("ask", {"id": "x"})
    given = [host.tool("ask").resume(interrupt, answer, ToolContext()) for answer in (YES, NO)]
    results = await asyncio.gather(*given, return_exceptions=True)
    assert sum(isinstance(result, AnswerConflictError) for result in results) == 1
    assert seen.runs["ask"] == 1


async def test_a_bad_answer_consumes_nothing(host: Host, store: Store) -> None:
    interrupt = await host.interrupt("ask", {"id": "x"})
    with pytest.raises(AnswerInvalidError):
        await host.tool("ask").resume(interrupt, {"approved": "perhaps"}, ToolContext())
    async with store.transaction() as connection:
        assert (await connection.execute(select(answers))).all() == []
    assert await host.tool("ask").resume(interrupt, YES, ToolContext())
