"""On SQLite an action's own transaction holds up who else writes only from its first write on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from grundlag_bus import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(f"sqlite:///{tmp_path}/store") as opened:
        async with opened.transaction() as connection:
            await connection.execute(text("CREATE TABLE effects (name TEXT)"))
        yield opened


async def names(connection: AsyncConnection) -> list[str]:
    return list((await connection.execute(text("SELECT name FROM effects ORDER BY name"))).scalars())


async def write(connection: AsyncConnection, name: str) -> None:
    await connection.execute(text("INSERT INTO effects (name) VALUES (:name)"), {"name": name})


async def write_beside(store: Store, name: str) -> None:
    async with store.transaction() as connection:
        await write(connection, name)


async def test_one_that_has_only_read_holds_up_nobody_and_may_write_afterwards(store: Store) -> None:
    long = await store.begin_long()
    assert await names(long) == []
    await write_beside(store, "beside")
    assert await names(long) == ["beside"]
    await write(long, "long")
    await long.commit()
    await long.close()
    async with store.reading() as connection:
        assert await names(connection) == ["beside", "long"]


@pytest.mark.parametrize("commits", [True, False])
async def test_one_that_has_written_is_waited_for_and_holds_all_of_it_back(store: Store, *, commits: bool) -> None:
    long = await store.begin_long()
    await write(long, "long")
    beside = asyncio.create_task(write_beside(store, "beside"))
    async with store.reading() as connection:
        assert await names(connection) == []
    assert not beside.done()
    if commits:
        await long.commit()
    await long.close()
    await beside
    async with store.reading() as connection:
        assert await names(connection) == ["beside", *(["long"] if commits else [])]


async def test_who_waits_while_one_writes_comes_before_the_next_one_of_its_kind(store: Store) -> None:
    first, second, third = [await store.begin_long() for _ in range(3)]
    await write(first, "first")
    others = [asyncio.create_task(write(each, "other")) for each in (second, third)]
    await asyncio.sleep(0.05)
    renewal = asyncio.create_task(store.ping())
    await asyncio.sleep(0.05)
    await first.close()
    done, _ = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert not renewal.done()
    await (second if others[0] in done else third).close()
    await renewal
    await asyncio.gather(*others)
    for each in (second, third):
        await each.close()


async def test_one_that_is_cancelled_while_it_waits_keeps_nobody_waiting(store: Store) -> None:
    first, second = await store.begin_long(), await store.begin_long()
    await write(first, "first")
    waiting = asyncio.create_task(write(second, "second"))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await second.close()
    await first.commit()
    await first.close()
    await store.ping()
    third = await store.begin_long()
    await write(third, "third")
    await third.invalidate()
    await third.close()
    await store.ping()
