"""The store: opened by many at once, refused with a sentence, pruned in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, func, insert, select, text
from sqlalchemy.exc import DBAPIError

from grundlag_bus import DatabaseError, Store, StoreAwayError
from grundlag_bus.store.retention import DAY, KEPT_FOR, LEAST, prune
from grundlag_bus.store.store import is_away
from grundlag_bus.store.tables import metadata, tombstones


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


async def test_whoever_opens_a_store_at_once_gets_the_same_one(store_url: str) -> None:
    stores = await asyncio.gather(*(Store.open(store_url) for _ in range(4)))
    assert len({store.id for store in stores}) == 1
    assert len(stores[0].id) == 32
    await asyncio.gather(*(store.close() for store in stores))


async def test_the_history_makes_the_tables_that_statements_are_written_for(store: Store) -> None:
    from alembic.autogenerate import compare_metadata  # noqa: PLC0415  slow
    from alembic.migration import MigrationContext  # noqa: PLC0415  the same

    def differences(connection: Any) -> Any:
        context = MigrationContext.configure(connection, opts={"version_table": "grundlag_version"})
        return compare_metadata(context, metadata)

    async with store.transaction() as connection:
        assert await connection.run_sync(differences) == []


async def test_the_clock_is_the_databases_and_goes_on_within_a_transaction(store: Store) -> None:
    async with store.transaction() as connection:
        first = await connection.scalar(select(store.now))
        assert first == pytest.approx(time.time(), abs=5)
        await asyncio.sleep(0.02)
        assert await connection.scalar(select(store.now)) > first


async def test_two_stores_differ(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path}/a") as a, await Store.open(f"sqlite:///{tmp_path}/b") as b:
        assert a.id != b.id


async def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    async def fail() -> None:
        async with store.transaction() as connection:
            await connection.execute(insert(tombstones).values(call_id="c", cancelled_at=store.now))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()
    async with store.transaction() as connection:
        assert await connection.scalar(select(func.count()).select_from(tombstones)) == 0


async def test_pruning_takes_what_is_old_in_batches_and_leaves_the_rest(store: Store) -> None:
    async with store.transaction() as connection:
        for age, count in ((KEPT_FOR + DAY, 7), (40 * DAY, 3)):
            for number in range(count):
                old = {"call_id": f"{age}-{number}", "cancelled_at": store.now - age}
                await connection.execute(insert(tombstones).values(old))
    assert (await prune(store, batch=3)).total == 7
    assert (await prune(store)).total == 0
    async with store.transaction() as connection:
        assert await connection.scalar(select(func.count()).select_from(tombstones)) == 3
    assert (await prune(store, older_than=0)).total == 3


def test_records_outlive_what_may_ask_for_them() -> None:
    from grundlag_bus.providers.interrupts import EXPIRY  # noqa: PLC0415  a layer above
    from grundlag_bus.transport.ladder import LONGEST  # noqa: PLC0415  the same

    assert KEPT_FOR > LEAST >= EXPIRY + LONGEST


async def test_a_store_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store"
    async with await Store.open(url):
        pass
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE grundlag_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(DatabaseError, match="a newer grundlag-bus has upgraded it: use that version here too"):
        await Store.open(url)


async def test_a_store_in_a_missing_directory_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"'store' could not be opened: .*\(sqlite\+aiosqlite:////.*/no/store\)"):
        await Store.open(f"sqlite:///{tmp_path}/no/store")


async def test_a_store_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path}/store"):
        pass
    with pytest.raises(DatabaseError, match="readonly"):
        await Store.open(f"sqlite:///file:{tmp_path}/store?mode=ro&uri=true")


async def test_a_server_that_is_away_is_told_without_the_password() -> None:
    with pytest.raises(DatabaseError, match=r"\(postgresql\+asyncpg://127.0.0.1:1/x\)") as refused:
        await Store.open("postgresql://ada:secret@127.0.0.1:1/x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://host/x", "sqlite://", "nonsense"])
async def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(DatabaseError, match="'store'"):
        await Store.open(url)


async def test_a_store_whose_connections_were_ended_says_so_and_serves_again(postgres_url: str) -> None:
    async with await Store.open(postgres_url) as store, await Store.open(postgres_url) as other:
        await store.ping()
        async with other.transaction() as connection:
            await connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        with pytest.raises(StoreAwayError):
            await store.ping()
        await store.ping()


async def test_an_actions_transaction_waits_for_another_process_that_writes_and_keeps_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grundlag_bus.store.store.WITHIN", 0.2)
    url = f"sqlite:///{tmp_path}/store.sqlite"
    write = text("UPDATE grundlag_store SET opened_at = 1")
    async with await Store.open(url) as store, await Store.open(url) as other:
        before, waiting, after = await other.begin_long(), await store.begin_long(), await store.begin_long()
        await before.execute(write)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await waiting.execute(write)
        await waiting.close()
        writing = asyncio.create_task(after.execute(write))
        await asyncio.sleep(0.5)
        assert not writing.done()
        await before.close()
        await writing
        await after.close()
        assert "Current Checked out connections: 0" in store._long.engine.pool.status()


@pytest.mark.parametrize(("state", "away"), [("57P03", True), ("08006", True), ("53300", True), ("23505", False)])
def test_a_server_that_starts_or_shuts_down_is_away_whatever_the_driver_calls_its_refusal(
    state: str, away: bool
) -> None:
    refusal = Exception("the database system is shutting down")
    vars(refusal)["sqlstate"] = state
    assert is_away(DBAPIError("", {}, refusal)) is away
