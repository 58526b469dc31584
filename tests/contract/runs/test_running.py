"""What a run gives, wherever its calls go."""

from __future__ import annotations

from grundlag_bus import Run, Runs
from tests.support.contract_registry import seen
from tests.support.hosts import on_buses

pytestmark = on_buses


async def ended(runs: Runs, run: Run) -> Run:
    ended = await runs.wait(run.run_id, timeout=60)
    assert ended.ended, ended
    return ended


async def asked(runs: Runs, run: Run) -> dict[str, str]:
    """Wait until a run waits for people, and return what it asks: ids by what is to be deleted."""
    waiting = await runs.wait(run.run_id, timeout=60, for_people=True)
    assert waiting.status == "waiting", waiting
    return {each.data["id"]: each.interrupt_id for each in await runs.pending(run_id=run.run_id)}


async def kinds(runs: Runs, run: Run) -> list[str]:
    return [entry.kind async for entry in runs.events(run.run_id)]


async def test_a_call_is_run_and_its_result_kept(runs: Runs) -> None:
    run = await runs.start_call("contractEcho", {"value": [1, None]}, user_id="ada")
    done = await ended(runs, run)
    assert (done.status, done.value, done.user_id) == ("completed", {"value": [1, None]}, "ada")
    assert seen.runs["echo"] == 1
    assert await kinds(runs, run) == ["run.started", "called", "settled", "run.ended"]


async def test_a_script_is_run_to_its_value(runs: Runs) -> None:
    source = "first = await contractAdd(n, 2)\nprint(first['sum'])\nawait contractEcho(first['sum'])"
    done = await ended(runs, await runs.start_script(source, inputs={"n": 1}))
    assert (done.status, done.value, done.stdout) == ("completed", {"value": 3}, "3\n")
    assert (seen.runs["add"], seen.runs["echo"]) == (1, 1)


async def test_a_script_that_asks_costs_a_row_until_it_is_answered(runs: Runs) -> None:
    source = "import asyncio\nawait asyncio.gather(contractAskBeside('a'), contractAskBeside('b'))"
    run = await runs.start_script(source, user_id="ada")
    interrupts = await asked(runs, run)
    assert set(interrupts) == {"a", "b"}
    assert runs.driven == 0
    await runs.answer(interrupts["b"], {"approved": False}, by="ada")
    assert set(await asked(runs, run)) == {"a"}
    await runs.answer(interrupts["a"], {"approved": True}, by="ada")
    done = await ended(runs, run)
    assert [each["approved"] for each in done.value] == [True, False]
    assert seen.runs["askBeside"] == 2
