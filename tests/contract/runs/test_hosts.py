"""What several hosts of a store leave to each other, and what is lost on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, update

from grundlag_bus import Runs, Store
from grundlag_bus.durable.call_records import CallRecords
from grundlag_bus.durable.outcome import Outcome
from grundlag_bus.durable.records import LeaseLostError, RunRecords
from grundlag_bus.store.tables import run_calls
from grundlag_bus.store.tables import runs as runs_table
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.mailboxes import call_of
from tests.support.runs import asked, ended, failure, question, value

if TYPE_CHECKING:
    from grundlag_bus import Run

pytestmark = on_buses


async def test_a_host_that_closes_leaves_its_runs_to_another_at_once(host: Host, store: Store) -> None:
    async with Runs(store, host.bus, lease=600) as first:
        run = await first.start_script("await contractHold('gate')\nawait contractEcho(1)")
        await eventually(lambda: seen.runs["hold gate"] == 1)
    async with Runs(store, host.bus) as second:
        seen.gate("gate").set()
        assert await value(second, run) == {"value": 1}
    assert (seen.runs["hold gate"], seen.runs["echo"]) == (1, 1)


async def test_replies_wait_for_a_host(host: Host, store: Store) -> None:
    async with Runs(store, host.bus) as first:
        run = await first.start_call("contractHold", {"name": "gate"})
        await eventually(lambda: seen.runs["hold gate"] == 1)
    seen.gate("gate").set()
    async with Runs(store, host.bus) as second:
        await value(second, run)
    assert seen.runs["hold gate"] == 1


async def test_what_is_asked_for_elsewhere_is_done_by_a_host(host: Host, store: Store) -> None:
    async with Runs(store, host.bus, drives=False) as asking:
        run = await asking.start_call("contractAsk", {"id": "a"}, user_id="ada")
        assert asking.driven == 0
        async with Runs(store, host.bus) as driving:
            interrupts = await asked(asking, run)
            await asking.answer(interrupts["a"], {"approved": True}, by="ada")
            assert (await value(asking, run))["approved"] is True
            assert driving.driven == 0


async def test_whoever_has_lost_a_run_writes_nothing_more_of_it(host: Host, store: Store) -> None:
    async with Runs(store, host.bus, drives=False) as runs:
        run = await runs.start_call("contractEcho", {"value": 1})
    records, calls = RunRecords(store, 600.0), CallRecords(store)
    (late,) = await records.claim("late", 10, ["call"])
    async with store.transaction() as connection:
        await connection.execute(update(runs_table).values(due_at=store.now - 1))
    (new,) = await records.claim("new", 10, ["call"])
    assert (new.hold.run_id, new.hold.fence) == (run.run_id, late.hold.fence + 1)
    entry = {"kind": "delivered", "call": 0}
    for write in (
        lambda hold: records.append(hold, entry, function="", answerer=None),
        lambda hold: records.park(hold, known=1, waiting=(), leeway=0),
        lambda hold: records.end(hold, Outcome("completed")),
        records.load,
        lambda hold: calls.record(hold, call_of("echo")),
    ):
        with pytest.raises(LeaseLostError):
            await write(late.hold)
    assert await records.renew([late.hold, new.hold]) == {new.hold: (False, False)}


async def test_a_run_whose_owner_is_gone_is_taken_when_its_lease_ends(host: Host, store: Store) -> None:
    async with Runs(store, host.bus, drives=False) as runs:
        run = await runs.start_call("contractEcho", {"value": 1})
    await RunRecords(store, 600.0).claim("gone", 10, ["call"])
    async with Runs(store, host.bus) as runs:
        assert await runs.recover() == 0
        async with store.transaction() as connection:
            await connection.execute(update(runs_table).values(due_at=store.now))
        assert await value(runs, run) == {"value": 1}


async def test_a_call_whose_deadline_passes_while_its_run_is_parked_ends_there(
    host: Host, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("caller", "host"):
        monkeypatch.setattr(f"grundlag_bus.durable.{module}.LEEWAY", 0.2)
    async with Runs(store, host.bus) as runs:
        await host.stop_workers()
        run = await runs.start_call("contractEcho", {"value": 1}, timeout=3)
        assert (await failure(runs, run))[0] == "deadline_exceeded"


async def test_calls_whose_replies_are_lost_with_the_mailbox_are_sent_again(host: Host, store: Store) -> None:
    async with Runs(store, host.bus) as runs:
        run = await runs.start_script("await contractHold('gate')\nawait contractEcho(1)")
        await eventually(lambda: seen.runs["hold gate"] == 1)

        async def published() -> bool:
            async with store.transaction() as connection:
                return await connection.scalar(select(run_calls.c.phase)) == "published"

        async with asyncio.timeout(30):
            while not await published():  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.01)
        seen.gate("gate").set()
        runs._replies_lost()
        assert await value(runs, run) == {"value": 1}
    assert (seen.runs["hold gate"], seen.runs["echo"]) == (1, 1)


async def test_a_parked_run_fails_by_name_when_its_action_does_not_take_its_input_any_more(
    host: Host, store: Store
) -> None:
    async with Runs(store, host.bus) as runs:
        run = await runs.start_script("await contractAsk('a')", user_id="ada")
        interrupt_id = await question(runs, run, "a")
        await asked(runs, run)
    async with Runs(store, host.bus) as later:
        offer = await later._offers.now()
        changed = offer.manifest.model_copy(deep=True)
        action = changed.find("contract", "ask")
        assert action is not None
        action.input["properties"]["id"] = {"type": "integer"}

        async def manifest() -> object:
            return changed

        later._offers._bus.manifest = manifest  # type: ignore[method-assign, assignment]  # as after a deploy
        await later._offers.now(fresh=True)
        await later.answer(interrupt_id, {"approved": True}, by="ada")
        done: Run = await ended(later, run)
    assert done.error is not None
    assert done.error["code"] == "script_failed"
    assert "The input of ask is not valid" in done.error["message"]
