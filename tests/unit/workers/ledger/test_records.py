"""Who has lost a lease writes nothing, whatever the one who has it now is at."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select, update

from grundlag_bus import Call, Request, Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger.claims import Claim, Granted
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.ledger.verdicts import Recorded

CALL = Call("c1", "calendar", "createEvent", Request({}), deadline=2e9)


def start(_: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool) -> Start:
    return Start()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


async def claimed(records: Records, owner: str) -> Hold:
    granted = await records.claim(Claim(CALL, "d", (owner,), owner), start, alone=False)
    assert isinstance(granted, Granted)
    return Hold(CALL.call_id, granted.fence)


async def test_a_late_worker_writes_nothing_and_learns_what_is_recorded(store: Store) -> None:
    records = Records(store, lease=60)
    late = await claimed(records, "late")
    async with store.transaction() as connection:
        await connection.execute(update(calls).values(lease_until=store.now - 1))
    now = await claimed(records, "now")
    assert now.fence > late.fence
    assert await records.renew([late], "late") == set()
    await records.release([late])
    assert await records.hand_over(late, CALL, b"{}", 0) is None
    assert await records.record(late, b"late") is None
    async with store.transaction() as connection:
        row = (await connection.execute(select(calls))).one()
    assert (row.phase, row.owner, row.fence, row.lost, row.reply) == ("leased", "now", 2, 1, None)
    assert await records.renew([now], "now") == {now}
    everybody = ("late", "now")
    assert await records.record(now, b"now") == (Recorded(b"now", None), everybody)
    assert await records.record(late, b"late") == (Recorded(b"now", None), everybody)
