from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from grundlag_bus import Store
from grundlag_bus.store.retention import KEPT_FOR
from grundlag_bus.store.tables import tombstones
from grundlag_bus.workers.ledger import pruning
from grundlag_bus.workers.ledger.presence import Presence


async def nothing() -> None:
    pass


async def test_workers_remove_what_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "PRUNE_EVERY", 0.01)
    async with await Store.open(f"sqlite:///{tmp_path}/store") as store:
        async with store.transaction() as connection:
            for call_id, age in (("old", KEPT_FOR + 1), ("new", KEPT_FOR - 60)):
                row = {"call_id": call_id, "cancelled_at": store.now - age}
                await connection.execute(insert(tombstones).values(row))
        presence = Presence(store, gone=nothing, back=nothing)
        now_and_then = asyncio.create_task(pruning.prune_now_and_then(store, presence))
        counts = [2]

        async def count() -> None:
            async with store.transaction() as connection:
                counts.append(await connection.scalar(select(func.count()).select_from(tombstones)) or 0)

        for _ in range(200):
            await count()
            if counts[-1] == 1:
                break
            await asyncio.sleep(0.01)
        assert counts[-1] == 1
        now_and_then.cancel()
        await asyncio.wait({now_and_then})
        await presence.settle(within=5)
