"""Workers of one provider share a ledger, and take nothing while its database is away."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from grundlag_bus import ConfigurationError, Ledger, Store, ToolContext
from grundlag_bus.store import store as store_module
from grundlag_bus.store.tables import calls
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses


@on_buses
async def test_the_ledgers_id_is_announced(host: Host, store: Store) -> None:
    (provider,) = (await host.bus.manifest()).providers
    assert provider.ledger == store.id


@on_buses
async def test_a_worker_with_another_ledger_or_none_does_not_start(host: Host, tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path}/another.sqlite") as another:
        for ledger, says in ((Ledger(another), "this one has another"), (None, "this one has none")):
            host.ledger = ledger
            with pytest.raises(ConfigurationError, match=f"'contract' share a ledger .*{says}.*start it with theirs"):
                await host.add_worker()
            running = host.workers.pop()
            await running.transport.close()


@on_buses
class TestAway:
    """The database takes nothing for a while."""

    @pytest.fixture
    def store_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(store_module, "WITHIN", 0.2)
        return f"sqlite:///{tmp_path}/ledger.sqlite"

    @pytest.fixture
    def lease(self) -> float:
        return 3.0

    async def test_calls_wait_and_go_on_at_no_cost(self, host: Host, store: Store, tmp_path: Path) -> None:
        (running,) = host.workers
        worker = running.worker
        before = asyncio.create_task(host.execute("holdFrail", {"name": "before"}))
        await eventually(lambda: seen.runs["hold before"] == 1)
        blocking = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
        blocking.execute("BEGIN IMMEDIATE")
        during = asyncio.create_task(host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=60)))
        await eventually(lambda: any("the ledger is away" in reason for reason in worker.ready().reasons))
        assert "database is locked" in str(worker.ready().reasons)
        # What runs is stopped before its lease ends, so that nobody else has it at the same time.
        await eventually(lambda: ("ends", "before") in seen.notes)
        assert not during.done()
        blocking.execute("ROLLBACK")
        blocking.close()
        assert await during == {"sum": 3}
        await eventually(lambda: worker.ready().ok)
        await eventually(lambda: seen.runs["hold before"] == 2)
        seen.gate("before").set()
        await before
        async with store.transaction() as connection:
            assert set((await connection.execute(select(calls.c.lost))).scalars()) == {0}

    async def test_what_a_full_database_does_not_take_is_held_and_goes_on_when_there_is_room(
        self, host: Host, store: Store
    ) -> None:
        """It answers all the same: only what needs another page fails."""
        (running,) = host.workers
        pages = [1]  # at least as many as there are

        def limit(connection: Any, *_: object) -> None:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA max_page_count = {pages[0]}")
            cursor.close()

        event.listen(store._engines.engine.sync_engine.pool, "checkout", limit)
        large = {"value": "x" * 100_000}
        call = asyncio.create_task(host.execute("echo", large, ToolContext(timeout=60)))
        await eventually(lambda: any("is full" in reason for reason in running.worker.ready().reasons))
        await store.ping()
        assert not call.done()
        pages[0] = 1_000_000
        assert await call == large
        await eventually(lambda: running.worker.ready().ok)
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


@pytest.mark.parametrize("host", ["rabbitmq"], indirect=True)
class TestSlow:
    """Another transaction has locked all calls for longer than a statement is waited for."""

    @pytest.fixture
    def store_url(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(store_module, "WITHIN", 0.5)
        return postgres_url

    async def test_a_worker_is_not_ready_and_holds_what_it_has(self, host: Host, store: Store) -> None:
        (running,) = host.workers
        before = asyncio.create_task(host.execute("hold", {"name": "before"}))
        await eventually(lambda: seen.runs["hold before"] == 1)
        locking = create_async_engine(store._engines.engine.url)
        async with locking.begin() as connection:
            await connection.execute(text("LOCK TABLE grundlag_calls, grundlag_store IN ACCESS EXCLUSIVE MODE"))
            during = asyncio.create_task(host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=60)))
            await eventually(lambda: any("the ledger is away" in told for told in running.worker.ready().reasons))
            seen.gate("before").set()
            await asyncio.sleep(0.2)
            assert not during.done()
            assert not before.done()
        await locking.dispose()
        assert await during == {"sum": 3}
        assert await before
        await eventually(lambda: running.worker.ready().ok)
        assert seen.runs["hold before"] == 1
        async with store.reading() as reading:
            assert set((await reading.execute(select(calls.c.lost))).scalars()) == {0}
