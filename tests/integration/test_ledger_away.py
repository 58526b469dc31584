"""PostgreSQL is stopped under load, slow or full: calls wait, none is lost or done twice, and no start is spent on it.

The workers are processes, and the callers are here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import create_async_engine

from grundlag_bus import Ledger, SealKeys, Store, ToolContext
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.roll_call import roll_call
from grundlag_bus.workers.status import ready
from ops.postgresql.programs import installed_programs, unpacked_programs
from ops.postgresql.server import PrivateServer
from tests.support.crashing_worker import Setting, crashing_worker
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace

IN_FLIGHT = 16


@pytest.fixture
def own_postgres() -> Iterator[PrivateServer]:
    """Serve a test that stops its server."""
    with PrivateServer(installed_programs() or unpacked_programs()) as server:
        yield server


class Load:
    """Callers that have an effect written in the ledger's own transaction, and another one added up, over and over."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._names = count()
        self._going = True
        self.asked = 0
        self.ended: list[str] = []
        self._callers = [asyncio.create_task(self._call()) for _ in range(IN_FLIGHT)]

    async def _call(self) -> None:
        while self._going:
            name = f"effect-{next(self._names)}"
            self.asked += 1
            patient = ToolContext(timeout=280)
            assert await self._host.execute("effect", {"name": name}, patient) == {"name": name}
            assert await self._host.execute("add", {"a": 1, "b": self.asked}, patient)
            self.ended.append(name)

    async def goes_on(self) -> None:
        """Return when twice as many as there are callers have ended from now on."""
        wanted = len(self.ended) + 2 * IN_FLIGHT
        await self._while(lambda: len(self.ended) >= wanted)

    async def end(self) -> None:
        self._going = False
        await asyncio.gather(*self._callers)

    async def _while(self, enough: object) -> None:
        assert callable(enough)
        await eventually(lambda: bool(enough()) or any(caller.done() for caller in self._callers), within=200)
        for caller in self._callers:
            if caller.done():
                caller.result()


@asynccontextmanager
async def workers(amqp_url: str, store_url: str, tmp_path: Path, *, lease: float) -> AsyncIterator[Host]:
    """Give a host whose two workers are processes; what an outage lets go wrong is in their logs."""
    namespace, keys = fresh_namespace(), SealKeys.generate()
    keys.save(tmp_path / "keys")
    setting = Setting(amqp_url, namespace, str(tmp_path / "keys"), store_url, lease)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(delete_namespaces, amqp_url, [namespace])
        async with await Store.open(store_url) as store:
            async with store.transaction() as connection:
                await connection.execute(text("CREATE TABLE effects (name VARCHAR(50), fence INTEGER)"))
            ledger = Ledger(store, lease=lease)
            host = await opened.enter_async_context(open_host("rabbitmq", namespace, amqp_url, keys, ledger=ledger))
            await host.stop_workers()
        processes = [await opened.enter_async_context(crashing_worker(setting)) for _ in range(2)]
        await told(host, 2, ready_=True)
        yield host
        assert [process.exitcode for process in processes] == [None, None]


async def told(host: Host, number: int, *, ready_: bool) -> list[str]:
    """Return when so many workers are ready, or have a ledger that is away, with what they say."""
    transport = host.bus.transport
    assert transport is not None
    async with asyncio.timeout(90):
        while True:
            reports = [ready(status) for status in await roll_call(transport, within=0.5)]
            away = [reason for report in reports for reason in report.reasons if "the ledger is away" in reason]
            if sum(report.ok for report in reports) == number if ready_ else len(away) == number:
                return away


async def rows(store_url: str) -> tuple[list[str], list[Row[Any, Any, Any, Any, Any]]]:
    """Return the effects by their names, and what is recorded of the calls."""
    engine = create_async_engine(store_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        names = (await connection.execute(text("SELECT name FROM effects"))).scalars().all()
        kept = await connection.execute(
            select(calls.c.call_id, calls.c.phase, calls.c.lost, calls.c.lease_until, calls.c.owner)
        )
        found = list(kept)
    await engine.dispose()
    return list(names), found


@pytest.mark.parametrize(
    ("seconds", "lease"),
    [
        pytest.param(6.0, 4.0, marks=pytest.mark.timeout(250), id="for longer than a lease"),
        pytest.param(30.0, 10.0, marks=[pytest.mark.long, pytest.mark.timeout(600)], id="for half a minute"),
    ],
)
async def test_while_postgresql_is_stopped_calls_wait_and_none_is_lost_or_done_twice(
    amqp_url: str, own_postgres: PrivateServer, tmp_path: Path, seconds: float, lease: float
) -> None:
    async with workers(amqp_url, own_postgres.url, tmp_path, lease=lease) as host:
        load = Load(host)
        await load.goes_on()
        await asyncio.to_thread(own_postgres.stop, at_once=True)
        away = asyncio.create_task(asyncio.sleep(seconds))
        reasons = await told(host, 2, ready_=False)
        assert len(reasons) == 2
        await away
        ended = len(load.ended)
        await asyncio.to_thread(own_postgres.start)
        await told(host, 2, ready_=True)
        await load.goes_on()
        await load.end()
        effects, kept = await rows(own_postgres.url)
    print(f"{ended} calls ended before PostgreSQL was stopped, {len(load.ended)} in all")  # noqa: T201  for who runs it
    assert sorted(effects) == sorted(load.ended)
    assert len(load.ended) == load.asked
    assert len(kept) == 2 * load.asked
    assert {(row.phase, row.lost, row.lease_until, row.owner) for row in kept} == {("ended", 0, None, None)}
