"""What a run gives, wherever its calls go."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select, update

from grundlag_bus import (
    ActionInputValidationError,
    ActionUnknownError,
    ConfigurationError,
    Runs,
    RunStateError,
    RunUnknownError,
    Store,
    connect,
)
from grundlag_bus.durable.host import Host as RunHost
from grundlag_bus.store.tables import run_calls, run_entries
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.runs import asked, ended, entries, failure, value

pytestmark = on_buses


async def test_a_call_is_run_and_its_result_kept(runs: Runs) -> None:
    run = await runs.start_call("contractEcho", {"value": [1, None]}, user_id="ada")
    done = await ended(runs, run)
    assert (done.status, done.value, done.user_id) == ("completed", {"value": [1, None]}, "ada")
    assert seen.runs["echo"] == 1
    kinds = [entry["kind"] for entry in await entries(runs, run)]
    assert kinds == ["run.started", "called", "settled", "run.ended"]


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


async def test_what_a_call_fails_with_is_the_runs_error(runs: Runs) -> None:
    code, message = await failure(runs, await runs.start_call("contractRaise", {"name": "ActionFailed"}))
    assert (code, message) == ("sold_out", "There is none left.")


async def test_what_is_wrong_with_a_script_is_told_with_its_line(runs: Runs) -> None:
    code, message = await failure(runs, await runs.start_script("one = 1\nmissing()"))
    assert (code, "missing" in message) == ("script_invalid", True)
    source = "await contractEcho(1)\nawait contractRaise('ActionFailed')"
    done = await ended(runs, await runs.start_script(source))
    assert done.error is not None
    assert (done.error["code"], done.error["details"]["line"]) == ("script_failed", 2)


async def test_a_run_waits_for_a_long_call_without_being_held(runs: Runs) -> None:
    run = await runs.start_script("await contractHold('gate')\nawait contractEcho('after')")
    await eventually(lambda: seen.runs["hold gate"] == 1)
    await eventually(lambda: runs.driven == 0)
    assert (await runs.get(run.run_id)).status == "running"
    seen.gate("gate").set()
    assert await value(runs, run) == {"value": "after"}
    assert seen.runs["hold gate"] == 1


async def test_a_run_is_started_once_however_often_it_is_asked_for(runs: Runs) -> None:
    first = await runs.start_call("contractEcho", {"value": 1}, run_id="mine")
    assert (await runs.start_call("contractEcho", {"value": 1}, run_id="mine")).run_id == first.run_id
    await ended(runs, first)
    assert seen.runs["echo"] == 1
    with pytest.raises(RunStateError, match="Another run has the id 'mine'"):
        await runs.start_call("contractEcho", {"value": 2}, run_id="mine")


async def test_what_cannot_be_run_is_refused_at_once(runs: Runs) -> None:
    with pytest.raises(ActionUnknownError, match="contractNothing"):
        await runs.start_call("contractNothing", {})
    with pytest.raises(ActionInputValidationError, match='"b" is missing'):
        await runs.start_call("contractAdd", {"a": 1})
    with pytest.raises(ConfigurationError, match="'contractAdd', which is a tool"):
        await runs.start_script("1", inputs={"contractAdd": 1})
    with pytest.raises(RunUnknownError, match="'other'"):
        await runs.get("other")
    assert await runs.list() == ()


async def test_a_provider_without_a_ledger_is_refused_unless_its_action_may_run_twice(host: Host, store: Store) -> None:
    await host.stop_workers()
    ledger, host.ledger = host.ledger, None
    other = await host.another_bus(namespace=f"{host.namespace}x")
    host.ledger = ledger
    async with Runs(store, other.bus) as without:
        with pytest.raises(ConfigurationError, match="'contract' has no ledger"):
            await without.start_call("contractEcho", {"value": 1})
        script = await without.start_script("await contractEcho(1)")
        assert "no ledger" in (await failure(without, script))[1]
        assert await value(without, await without.start_call("contractAdd", {"a": 1, "b": 1})) == {"sum": 2}
    async with Runs(store, other.bus, without_ledger=True) as told_otherwise:
        done = await ended(told_otherwise, await told_otherwise.start_call("contractEcho", {"value": 1}))
    if RunHost.replay_always:  # as if its host had died while it was sent
        assert done.error is not None
        assert done.error["code"] == "outcome_unknown"
    else:
        assert done.value == {"value": 1}


async def test_runs_in_process_are_refused(store: Store, host: Host) -> None:
    with pytest.raises(ConfigurationError, match="Runs need a bus with a transport"):
        Runs(store, connect(make_registry(host.keys)))


async def test_items_travel_from_call_to_call(runs: Runs) -> None:
    source = "await contractRemember('completed')\nawait contractRecall()"
    assert (await value(runs, await runs.start_script(source)))["types"] == ["note", "place"]


async def test_a_cancelled_run_gives_each_of_its_calls_an_outcome(runs: Runs) -> None:
    source = "import asyncio\nawait asyncio.gather(contractHold('gate'), contractAskBeside('a'), contractEcho(1))"
    run = await runs.start_script(source)
    await eventually(lambda: seen.runs["hold gate"] == 1 and seen.runs["echo"] == 1)
    await runs.cancel(run.run_id)
    done = await ended(runs, run)
    assert (done.status, done.error and done.error["code"]) == ("cancelled", "cancelled")
    written = await entries(runs, run)
    called = [entry["call"] for entry in written if entry["kind"] == "called"]
    outcomes = {entry["call"]: entry["outcome"]["status"] for entry in written if entry["kind"] == "settled"}
    assert set(outcomes) == set(called)
    assert "interrupted" not in outcomes.values()
    assert await runs.pending(run_id=run.run_id) == ()
    await runs.cancel(run.run_id)  # nothing more happens


async def test_another_try_calls_what_completed_no_second_time(runs: Runs) -> None:
    source = "await contractEcho(1)\nawait contractEcho(1)\nawait contractAsk('a')\nawait contractRaise('ActionFailed')"
    run = await runs.start_script(source, user_id="ada")
    await runs.answer((await asked(runs, run))["a"], {"approved": True}, by="ada")
    assert (await failure(runs, run))[0] == "script_failed"
    again = await runs.retry(
        run.run_id, source=source.replace("await contractRaise('ActionFailed')", "await contractEcho(1)")
    )
    assert (again.retry_of, again.user_id) == (run.run_id, "ada")
    assert await value(runs, again) == {"value": 1}
    assert (seen.runs["echo"], seen.runs["ask"]) == (3, 1)
    with pytest.raises(RunStateError, match="is completed"):
        await runs.retry(again.run_id)


async def test_a_damaged_journal_stops_its_run_alone(runs: Runs, store: Store) -> None:
    damaged = await runs.start_script("await contractAsk('a')")
    other = await runs.start_script("await contractAsk('b')")
    first, second = await asked(runs, damaged), await asked(runs, other)
    async with store.transaction() as connection:
        mine = (run_entries.c.run_id == damaged.run_id, run_entries.c.kind == "called")
        await connection.execute(update(run_entries).where(*mine).values(entry=b"{"))
    await runs.answer(first["a"], {"approved": True})
    await runs.answer(second["b"], {"approved": True})
    assert (await runs.wait(damaged.run_id, timeout=60)).error == {
        "code": "journal_damaged",
        "message": "The run's journal cannot be read: unexpected end of data: line 1 column 2 (char 1)",
    }
    assert (await value(runs, other))["approved"] is True


async def test_a_script_that_does_something_else_than_its_journal_says_stops_with_its_place(
    runs: Runs, store: Store
) -> None:
    run = await runs.start_script("await contractEcho(1)\nawait contractAsk('a')")
    interrupts = await asked(runs, run)
    async with store.transaction() as connection:
        mine = (run_entries.c.run_id == run.run_id, run_entries.c.kind == "called", run_entries.c.position == 3)
        entry = await connection.scalar(select(run_entries.c.entry).where(*mine))
        assert entry is not None
        await connection.execute(
            update(run_entries).where(*mine).values(entry=entry.replace(b"contractEcho", b"contractTree"))
        )
    await runs.answer(interrupts["a"], {"approved": True})
    done = await ended(runs, run)
    assert done.error is not None
    assert (done.error["code"], done.error["details"]) == ("replay_mismatch", {"call": 0})
    assert "calls contractEcho where contractTree was called" in done.error["message"]


async def test_pruning_leaves_what_goes_on(runs: Runs, store: Store) -> None:
    old = await runs.start_call("contractEcho", {"value": 1})
    await ended(runs, old)
    waiting = await runs.start_script("await contractAsk('a')")
    await asked(runs, waiting)
    assert await runs.prune() == 0
    assert await runs.prune(older_than=0) == 1
    assert [run.run_id for run in await runs.list()] == [waiting.run_id]
    async with store.transaction() as connection:
        for table in (run_entries, run_calls):
            left = await connection.scalars(select(table.c.run_id).distinct())
            assert set(left) == {waiting.run_id}


async def test_runs_are_listed_the_newest_first_by_user_and_status(runs: Runs) -> None:
    first = await runs.start_call("contractEcho", {"value": 1}, user_id="ada")
    second = await runs.start_call("contractEcho", {"value": 1}, user_id="bob")
    third = await runs.start_call("contractAsk", {"id": "a"}, user_id="ada")
    await asyncio.gather(ended(runs, first), ended(runs, second), asked(runs, third))
    assert [run.run_id for run in await runs.list()] == [third.run_id, second.run_id, first.run_id]
    assert [run.run_id for run in await runs.list(user_id="ada")] == [third.run_id, first.run_id]
    assert [run.run_id for run in await runs.list(status="waiting")] == [third.run_id]
    newest = (await runs.list(limit=1))[0]
    assert [run.run_id for run in await runs.list(before=newest.created_at)] == [second.run_id, first.run_id]


async def test_events_can_be_joined_late_and_from_the_middle(runs: Runs) -> None:
    run = await runs.start_script("await contractEcho(1)\nawait contractAsk('a')")
    interrupts = await asked(runs, run)
    heard = []

    async def listen() -> None:
        async for entry in runs.events(run.run_id, after=1):
            heard.append(entry.kind)  # noqa: PERF401  it is looked at meanwhile

    listening = asyncio.create_task(listen())
    await eventually(lambda: len(heard) == 6)
    await runs.answer(interrupts["a"], {"approved": True})
    await asyncio.wait_for(listening, 60)
    assert heard == [
        *["began", "called", "settled", "delivered", "called", "settled"],
        *["answered", "settled", "delivered", "run.ended"],
    ]
