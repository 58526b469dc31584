"""What the suite does with the ledger's database.

Effects in it are promised to be single: there is one row for each time that one was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, delete, func, insert, select

from grundlag_bus.store.tables import answers, calls, tombstones

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from grundlag_bus.store.store import Store

_metadata = MetaData()
_effects = Table(
    "chaos_effects",
    _metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("call_id", String(64), nullable=False),
    Column("fence", BigInteger, nullable=False),
)


async def make_table(store: Store) -> None:
    """Have an empty table. Raises StoreAwayError."""
    async with store.transaction() as connection:
        await connection.run_sync(_metadata.drop_all)
        await connection.run_sync(_metadata.create_all)


async def record_effect(connection: AsyncConnection, call_id: str, fence: int) -> None:
    await connection.execute(insert(_effects).values(call_id=call_id, fence=fence))


async def read_effects(store: Store) -> list[tuple[str, int]]:
    """Return call id and fence of each effect there is. Raises StoreAwayError."""
    async with store.transaction() as connection:
        rows = await connection.execute(select(_effects.c.call_id, _effects.c.fence).order_by(_effects.c.id))
        return [(row.call_id, row.fence) for row in rows]


async def read_rows(store: Store, provider_id: str) -> dict[str, int]:
    """Count the calls of a provider that are recorded, by phase. Raises StoreAwayError."""
    counted = select(calls.c.phase, func.count()).where(calls.c.provider_id == provider_id).group_by(calls.c.phase)
    async with store.transaction() as connection:
        return {phase: number for phase, number in (await connection.execute(counted)).all()}  # noqa: C416  it is no dict of rows


async def forget(store: Store, provider_id: str) -> None:
    """Remove what runs recorded of a provider, and the effects. Raises StoreAwayError."""
    ours = select(calls.c.call_id).where(calls.c.provider_id == provider_id)
    async with store.transaction() as connection:
        for table in (answers, tombstones):
            await connection.execute(delete(table).where(table.c.call_id.in_(ours)))
        await connection.execute(delete(calls).where(calls.c.provider_id == provider_id))
        await connection.run_sync(_metadata.drop_all)
