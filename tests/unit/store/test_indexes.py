"""What a busy ledger is asked is found by an index, however many calls are in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event, func, select, text

from grundlag_bus import Call, Request, Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.store.retention import prune
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger.claims import Claim
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from ops.bench.ledger import fill

ROWS = 1_000


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    await fill(store_url, ROWS)
    async with await Store.open(store_url) as opened:
        yield opened


async def test_claims_outcomes_renewals_and_pruning_read_no_whole_table(store: Store) -> None:
    told: list[tuple[str, Any]] = []

    def listen(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "SELECT", "DELETE")):
            told.append((statement, parameters))

    def start(_: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool) -> Start:
        return Start()

    records = Records(store, lease=60)
    call = Call("c1", "calendar", "createEvent", Request({}), deadline=2e9)
    event.listen(store._engines.engine.sync_engine, "before_cursor_execute", listen)
    for _ in range(2):  # not known, and known
        await records.claim(Claim(call, "d", ("m",), "me"), start, alone=False)
    await records.renew([Hold("c1", 2)], "me")
    await records.record(Hold("c1", 2), b"{}")
    await prune(store)
    event.remove(store._engines.engine.sync_engine, "before_cursor_execute", listen)
    assert len(told) > 6
    explain = "EXPLAIN QUERY PLAN " if store.dialect == "sqlite" else "EXPLAIN "
    plans: dict[str, str] = {}
    async with store.transaction() as connection:
        assert await connection.scalar(select(func.count()).select_from(calls)) == ROWS + 1
        if store.dialect == "postgresql":  # which reads the whole of a table as small as this one, unless told not to
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
        for statement, parameters in told:
            rows = await connection.exec_driver_sql(explain + statement, parameters)
            plans[statement] = "\n".join(str(row[-1]) for row in rows)
    whole = "SCAN grundlag_calls" if store.dialect == "sqlite" else "Seq Scan on grundlag_calls"
    assert [f"{statement}\n{plan}" for statement, plan in plans.items() if whole in plan] == []
