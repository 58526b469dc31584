"""The server of the ledger is restarted."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault, whole
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.chaos.faults.fault import Ground


@asynccontextmanager
async def _restarted(ground: Ground, _: int) -> AsyncIterator[str]:
    if ground.field.database is None:
        raise LookupError("Nobody controls the ledger's database.")
    await whole(ground.field.database.restart())
    yield "database"


def _lacks(ground: Ground) -> str | None:
    return None if ground.field.database is not None else "it needs control of the ledger's database"


FAULTS = (Fault(Kind("database-restart", heals=3.0), _restarted, _lacks),)
