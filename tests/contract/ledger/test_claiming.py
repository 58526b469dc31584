"""With a ledger a call ends once: what ended is not run again, and nobody runs what another one has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from grundlag_bus import AttemptsExhaustedError, Completed, Failed, OutcomeUnknownError, Request, Store
from grundlag_bus.store.tables import calls, tombstones
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.mailboxes import call_of, mailbox

pytestmark = on_buses


async def phases(store: Store) -> list[str]:
    async with store.transaction() as connection:
        return list((await connection.execute(select(calls.c.phase))).scalars())


async def hold(host: Host, name: str, action: str = "hold") -> asyncio.Task[Any]:
    """Start a call that waits at a gate."""
    call = asyncio.create_task(host.execute(action, {"name": name}))
    await eventually(lambda: seen.runs[f"hold {name}"] == 1)
    return call


async def test_tools_work_as_without(host: Host, store: Store) -> None:
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
    assert await phases(store) == ["ended"]


async def test_a_call_that_ended_is_replied_to_again_and_not_run_by_another_worker(host: Host) -> None:
    call = call_of("add", {"a": 1, "b": 2})
    async with mailbox(host) as first, mailbox(host) as second:
        reply = await first.ask(call)
        await host.stop_workers()
        await host.add_worker()
        assert await second.ask(call) == reply
        assert reply.response == Completed({"sum": 3})
    assert seen.runs["add"] == 1


@pytest.mark.parametrize("change", [{"request": Request({"a": 1, "b": 9})}, {"user_id": "eve"}, {"action_id": "echo"}])
async def test_a_known_id_with_another_content_is_refused_and_tells_nothing(host: Host, change: dict[str, Any]) -> None:
    call = call_of("add", {"a": 1, "b": 2}, user_id="ada")
    async with mailbox(host) as box:
        await box.ask(call)
        response = (await box.ask(replace(call, **change))).response
    assert isinstance(response, Failed)
    assert response.code == "call_id_reused"
    assert "3" not in response.message.replace(call.call_id, "")
    assert seen.runs == {"add": 1}


async def test_two_workers_with_one_call_run_it_once_and_reply_to_whoever_asked(host: Host, store: Store) -> None:
    await host.add_worker()
    call = call_of("hold", {"name": "one"})
    async with mailbox(host) as first, mailbox(host) as second:
        await first.send(call)
        await eventually(lambda: seen.runs["hold one"] == 1)
        for _ in range(4):  # some of them reach the other worker
            await second.send(call)
        await asyncio.sleep(0.2)
        seen.gate("one").set()
        assert await first.replies() == (await second.replies())[:1]
    assert seen.runs["hold one"] == 1
    assert await phases(store) == ["ended"]


async def test_an_older_generation_that_comes_again_starts_nothing(host: Host) -> None:
    call = call_of("flaky", {"times": 1})
    async with mailbox(host) as box:
        reply = await box.ask(call)
        assert len(seen.notes) == 2
        assert await box.ask(call) == reply
    assert reply.generation == 2
    assert len(seen.notes) == 2


async def test_an_older_generation_that_comes_while_the_next_one_waits_is_replied_to_with_it(host: Host) -> None:
    call = call_of("later", {"times": 1, "after": 2.0})
    async with mailbox(host) as first, mailbox(host) as second:
        await first.send(call)
        await eventually(lambda: len(seen.notes) == 1)
        await asyncio.sleep(0.2)
        await second.send(call)
        assert (await first.replies())[0] == (await second.replies())[0]
    assert len(seen.notes) == 2


async def test_a_call_that_was_cancelled_once_never_starts(host: Host, store: Store) -> None:
    call = call_of("add", {"a": 1, "b": 2})
    async with store.transaction() as connection:
        await connection.execute(insert(tombstones).values(call_id=call.call_id, cancelled_at=store.now))
    async with mailbox(host) as box:
        for _ in range(2):
            response = (await box.ask(call)).response
            assert isinstance(response, Failed)
            assert response.code == "cancelled"
    assert seen.runs["add"] == 0


async def test_a_worker_that_stops_gives_its_calls_back_at_no_cost(host: Host, store: Store) -> None:
    call = await hold(host, "moved", "holdFrail")
    await host.stop_workers()
    await host.add_worker()
    await eventually(lambda: seen.runs["hold moved"] == 2)
    seen.gate("moved").set()
    assert await call


class TestLosses:
    """Workers die."""

    @pytest.fixture
    def lease(self) -> float:
        return 2.0

    async def test_a_call_whose_worker_died_is_taken_over_when_its_lease_ends(self, host: Host, store: Store) -> None:
        call = await hold(host, "lost")
        await host.kill_worker()
        await host.add_worker()
        await eventually(lambda: seen.runs["hold lost"] == 2)
        seen.gate("lost").set()
        assert await call
        async with store.transaction() as connection:
            row = (await connection.execute(select(calls))).one()
        assert (row.phase, row.fence, row.lost, row.lease_until) == ("ended", 2, 1, None)

    async def test_a_call_is_given_up_after_as_many_starts_as_its_action_says(self, host: Host) -> None:
        call = await hold(host, "frail", "holdFrail")
        await host.kill_worker()
        await host.add_worker()
        with pytest.raises(AttemptsExhaustedError):
            await call
        assert seen.runs["hold frail"] == 1

    async def test_what_may_not_be_started_again_has_an_unknown_outcome(self, host: Host) -> None:
        call = await hold(host, "once", "holdOnce")
        await host.kill_worker()
        await host.add_worker()
        with pytest.raises(OutcomeUnknownError):
            await call
        assert seen.runs["hold once"] == 1

    async def test_a_worker_that_lost_its_lease_ends_nothing(self, host: Host, store: Store) -> None:
        """Another worker has taken the call over, and recorded how it ended."""
        call = await hold(host, "taken")
        (worker,) = host.workers
        async with store.transaction() as connection:
            taken = {"fence": 7, "owner": "another", "lease_until": store.now + 3}
            await connection.execute(update(calls).values(taken))
        await eventually(lambda: worker.worker.in_flight == 0)
        async with store.transaction() as connection:
            assert (await connection.execute(select(calls.c.fence, calls.c.owner))).one() == (7, "another")
        seen.gate("taken").set()
        assert await asyncio.wait_for(call, 15)
        async with store.transaction() as connection:
            assert (await connection.execute(select(calls.c.fence, calls.c.phase))).one() == (8, "ended")

    async def test_a_lease_is_renewed_for_as_long_as_its_call_runs(self, host: Host, store: Store) -> None:
        call = await hold(host, "long")
        await host.add_worker()
        await asyncio.sleep(3)
        seen.gate("long").set()
        assert await call
        assert seen.runs["hold long"] == 1
