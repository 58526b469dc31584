"""On SQLite, a transaction of an action's own takes the write lock at its first statement that writes, and not before.

All that a ledger records waits for that lock. Until it writes, a transaction reads what is committed in that moment, as
on PostgreSQL: one that began by reading a snapshot could not write once anybody else had. In this process it then waits
its turn as everything that writes does, and there is one at most, so that renewals of leases come between two of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.util import await_only

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

_HAS_IT = "grundlag_has_turn"


class LateLock:
    """Gives an engine's transactions their turn. turn: that of all who write in this process."""

    def __init__(self, engine: AsyncEngine, turn: asyncio.Lock) -> None:
        self._turn = turn
        self._one = asyncio.Lock()
        pool = engine.sync_engine.pool
        event.listen(engine.sync_engine, "before_cursor_execute", self._before)
        event.listen(pool, "checkin", self._ended)
        event.listen(pool, "invalidate", self._ended)

    def _before(self, connection: Connection, _: Any, statement: str, *__: Any) -> None:
        if _HAS_IT in connection.info or not _writes(statement):
            return
        await_only(self._take())
        connection.info[_HAS_IT] = True
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except OperationalError as error:
                if "locked" not in str(error):
                    raise
                # Another process writes. Whoever waits is cancelled when that takes too long.
            else:
                return

    async def _take(self) -> None:
        async with self._one:
            await self._turn.acquire()

    def _ended(self, _: Any, record: Any, *__: Any) -> None:
        if record.info.pop(_HAS_IT, False):
            self._turn.release()


def _writes(statement: str) -> bool:
    return statement.lstrip()[:6].upper() not in ("SELECT", "PRAGMA")
