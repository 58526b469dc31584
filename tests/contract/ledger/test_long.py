"""A call of lane `long` holds nothing, however long it takes, and goes on elsewhere from where it was."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, select, update

from grundlag_bus import CallCancelledError, Completed, Ledger, OutcomeUnknownError, Store, ToolContext
from grundlag_bus.providers.disposition import Start
from grundlag_bus.schema.codec import digest
from grundlag_bus.store import store as store_module
from grundlag_bus.store.tables import calls
from grundlag_bus.workers import lanes
from grundlag_bus.workers.ledger import failpoints
from grundlag_bus.workers.ledger.claims import Claim
from grundlag_bus.workers.ledger.long_records import LongRecords
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses, open_host
from tests.support.long_actions import make_registry
from tests.support.mailboxes import call_of, mailbox
from tests.support.namespaces import fresh_namespace
from tests.support.transports import reconnect

pytestmark = on_buses


@pytest.fixture
async def host(request: pytest.FixtureRequest, store: Store, lease: float) -> AsyncIterator[Host]:
    kind: str = request.param
    namespace = fresh_namespace()
    address = f"memory://{namespace}"
    if kind == "rabbitmq":
        address = request.getfixturevalue("amqp_url")
        request.getfixturevalue("_used").append(namespace)
    seen.reset()
    async with open_host(kind, namespace, address, ledger=Ledger(store, lease=lease), offers=make_registry) as opened:
        yield opened
        seen.reset()
    await store.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"


async def row(store: Store) -> Row[Any]:
    async with store.transaction() as connection:
        return (await connection.execute(select(calls))).one()


async def climb(host: Host, name: str, steps: int = 2, action: str = "climb") -> asyncio.Task[Any]:
    """Start a call, and return when it waits for its first gate and holds no delivery."""
    before = seen.runs[name]
    context = ToolContext(timeout=120)
    call = asyncio.create_task(host.execute(action, {"name": name, "steps": steps}, context))
    await eventually(lambda: seen.runs[name] == before + 1)
    return call


async def step(name: str, number: int) -> None:
    seen.gate(f"{name} {number}").set()
    await eventually(lambda: (name, "at", number) in seen.notes)


async def test_a_lost_connection_starts_it_nowhere_else(host: Host) -> None:
    call = await climb(host, "high", steps=1)
    await host.add_worker()
    await reconnect(host.workers[0].transport)
    await asyncio.sleep(0.3)
    seen.gate("high 1").set()
    assert await call == {"began": 0, "attempt": 1}
    assert seen.runs["high"] == 1


async def test_it_may_take_longer_than_the_broker_waits(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MAIN", lanes.Lane(limit=0.2, consumer_timeout=0.5))
    await host.stop_workers()
    await host.add_worker()
    call = await climb(host, "high", steps=1)
    await asyncio.sleep(1.5)
    seen.gate("high 1").set()
    assert await call == {"began": 0, "attempt": 1}
    assert seen.runs["high"] == 1


async def test_drained_it_goes_on_elsewhere_at_once_and_at_no_cost(host: Host, store: Store) -> None:
    call = await climb(host, "high", action="climbFrail")
    await step("high", 1)
    await host.stop_workers()
    assert (await row(store)).phase == "free"
    await asyncio.sleep(0.3)
    since = asyncio.get_running_loop().time()
    await host.add_worker()
    await eventually(lambda: seen.runs["high"] == 2)
    assert asyncio.get_running_loop().time() - since < 20, "its lease has not ended yet"
    await step("high", 2)
    assert await call == {"began": 1, "attempt": 1}
    await eventually(lambda: not host.workers[0].worker.in_flight)
    ended = await row(store)
    assert (ended.phase, ended.lost, ended.copy, ended.checkpoint, ended.mailboxes) == ("ended", 0, None, None, "")


async def test_a_copy_that_comes_beside_another_delivery_of_its_call_goes_on_looking_after_it(
    host: Host, store: Store
) -> None:
    """Its worker is gone, which nobody knows yet, and both come to one worker at once."""
    await host.stop_workers()
    call = call_of("stride", {}, lane="long")
    asked = digest([call.provider_id, call.action_id, call.user_id, call.request.to_json()])
    claim = Claim(call, asked, (), "gone", early=True)
    await Records(store, 3.0).claim(claim, lambda *_, **__: Start(), alone=False)
    await LongRecords(store).watched(Hold(call.call_id, 1), "the copy")
    async with mailbox(host) as box:
        await box.send(call)
        await box.send(replace(call, copy="the copy"), waits=False)
        await host.add_worker()
        assert (await box.replies())[0].response == Completed({"began": 0, "attempt": 1})


@pytest.mark.parametrize("lease", [2.0], ids=["short"])
async def test_what_may_not_be_started_again_is_not_when_its_worker_drains_or_could_not_hold_on_to_it(
    host: Host, store: Store
) -> None:
    call = await climb(host, "high", action="climbOnce")
    await host.stop_workers()
    with pytest.raises(OutcomeUnknownError):
        await call
    await host.add_worker()
    call = await climb(host, "low", action="climbOnce")
    await host.kill_worker()
    async with store.transaction() as connection:  # as its worker does when its lease was in danger
        given_back = {"phase": "free", "owner": None, "lease_until": None}
        await connection.execute(update(calls).where(calls.c.phase == "leased").values(given_back))
    await host.add_worker()
    with pytest.raises(OutcomeUnknownError):
        await call
    assert seen.runs.total() == 2


async def test_a_full_worker_takes_no_more_and_leaves_the_rest_to_others(host: Host) -> None:
    await host.stop_workers()
    await host.add_worker(concurrency=2)
    waiting = [
        asyncio.create_task(host.execute("climb", {"name": f"way {n}"}, ToolContext(timeout=120))) for n in "abcde"
    ]
    await eventually(lambda: seen.runs.total() == 2)
    await asyncio.sleep(0.5)
    assert seen.runs.total() == 2
    first = next(iter(seen.runs))
    seen.gate(f"{first} 1").set()
    await eventually(lambda: seen.runs.total() == 3)
    await asyncio.sleep(0.2)
    assert seen.runs.total() == 3
    await host.add_worker(concurrency=2)
    await eventually(lambda: seen.runs.total() == 5)
    for name in "abcde":
        seen.gate(f"way {name} 1").set()
    assert len(await asyncio.gather(*waiting)) == 5


async def test_the_next_attempt_and_what_was_deferred_go_on_from_the_checkpoint(host: Host) -> None:
    assert await host.execute("stride", {"fail": 1}) == {"began": 1, "attempt": 2}
    assert await host.execute("stride", {"defer": True}) == {"began": 1, "attempt": 1}


async def test_a_cancelled_one_stops(host: Host) -> None:
    signal = asyncio.Event()
    context = ToolContext(timeout=60, signal=signal)
    call = asyncio.create_task(host.execute("climb", {"name": "high"}, context))
    await eventually(lambda: seen.runs["high"] == 1)
    signal.set()
    with pytest.raises(CallCancelledError):
        await call


async def test_one_that_was_cancelled_while_nobody_had_it_does_not_go_on(host: Host) -> None:
    signal = asyncio.Event()
    call = asyncio.create_task(host.execute("climb", {"name": "high"}, ToolContext(timeout=60, signal=signal)))
    await eventually(lambda: seen.runs["high"] == 1)
    await host.stop_workers()
    signal.set()
    await asyncio.sleep(0.2)
    await host.add_worker()
    with pytest.raises((CallCancelledError, OutcomeUnknownError)):
        await call
    assert seen.runs["high"] == 1


@pytest.mark.parametrize("lease", [2.0], ids=["short"])
async def test_killed_it_is_taken_over_from_its_checkpoint_by_whoever_comes(host: Host, store: Store) -> None:
    call = await climb(host, "high")
    await step("high", 1)
    await host.kill_worker()
    await asyncio.sleep(0.3)  # nobody is there
    await host.add_worker()
    await eventually(lambda: seen.runs["high"] == 2)
    await step("high", 2)
    assert await call == {"began": 1, "attempt": 1}
    assert (await row(store)).lost == 1


class TestShortLeases:
    """What goes by the end of a lease."""

    @pytest.fixture
    def lease(self) -> float:
        return 2.0

    async def test_one_copy_looks_after_it_however_often_it_is_sent(
        self, host: Host, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await host.add_worker()
        reached: list[str] = []
        monkeypatch.setattr(failpoints, "hook", reached.append)
        call = call_of("climb", {"name": "high"}, lane="long")
        async with mailbox(host) as first, mailbox(host) as second:
            await first.send(call)
            await eventually(lambda: seen.runs["high"] == 1)
            for _ in range(6):  # some of them reach the other worker
                await second.send(call)
            await asyncio.sleep(3)
            reached.clear()
            await asyncio.sleep(4.5)
            # One goes around in no less than a lease after it was renewed, and no more often.
            assert 1 <= reached.count("copy.published") <= 4
            seen.gate("high 1").set()
            assert await first.replies() == await second.replies()
        await eventually(lambda: all(not running.worker.in_flight for running in host.workers))
        assert seen.runs["high"] == 1
        assert (await row(store)).mailboxes == ""


class TestAway:
    """The database takes nothing for a while."""

    @pytest.fixture
    def store_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(store_module, "WITHIN", 0.2)
        return f"sqlite:///{tmp_path}/ledger.sqlite"

    @pytest.fixture
    def lease(self) -> float:
        return 3.0

    @pytest.fixture
    def away(self, tmp_path: Path) -> Callable[[], AbstractContextManager[None]]:
        @contextmanager
        def held() -> Iterator[None]:
            blocking = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
            blocking.execute("BEGIN IMMEDIATE")
            yield
            blocking.execute("ROLLBACK")
            blocking.close()

        return held

    async def test_it_is_stopped_in_time_and_goes_on_here_at_no_cost(
        self, host: Host, store: Store, away: Callable[[], AbstractContextManager[None]]
    ) -> None:
        call = await climb(host, "high", action="climbFrail")
        await step("high", 1)
        with away():
            await eventually(lambda: ("high", "stopped") in seen.notes)
        await eventually(lambda: seen.runs["high"] == 2)
        await step("high", 2)
        assert await call == {"began": 1, "attempt": 1}
        assert (await row(store)).lost == 0

    async def test_its_copy_brings_it_to_another_worker_where_it_could_not_be_given_back(
        self, host: Host, away: Callable[[], AbstractContextManager[None]]
    ) -> None:
        call = await climb(host, "high")
        await step("high", 1)
        with away():
            await eventually(lambda: ("high", "stopped") in seen.notes)
            await host.stop_workers()
        await host.add_worker()
        await eventually(lambda: seen.runs["high"] == 2)
        await step("high", 2)
        assert await call == {"began": 1, "attempt": 1}
