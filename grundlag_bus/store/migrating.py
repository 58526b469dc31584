"""Bring a database up to date once, however many coroutines, workers and processes ask together.

SQLite's write lock or a PostgreSQL advisory lock lets one in, and the others find the work done. It happens in one
transaction and in a thread of its own, since revisions are synchronous and Alembic's `op` is one per process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from grundlag_bus.errors import DatabaseError
from grundlag_bus.store.engines import BUSY_SECONDS, begin, is_sqlite, sqlite_arguments

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

_LOCK_SECONDS = 600  # how long to wait for another process that migrates
_POLL_SECONDS = 0.05
_ADVISORY_LOCK = 0x6772756E646C6167  # "grundlag", and the same for every database id: they may share one database
_ALEMBIC = threading.Lock()


def migrate(database_id: str, url: URL, bring_up_to_date: Callable[[Connection], None]) -> None:
    """Call `bring_up_to_date` while no other process does. Blocks: to be called in a thread. Raises DatabaseError."""
    if is_sqlite(url):
        _migrate_sqlite(url, bring_up_to_date)
    else:
        asyncio.run(_migrate_postgresql(database_id, url, bring_up_to_date))


def upgrade(
    connection: Connection,
    migrations: str | os.PathLike[str],
    *,
    version_table: str = "alembic_version",
) -> None:
    """Upgrade to the heads of an Alembic script directory, in one transaction; its `env.py` does not run.

    version_table: where it is written down how far the database is. Raises alembic's CommandError for a database that
    is at a revision which the directory does not have.
    """
    from alembic.operations import Operations  # noqa: PLC0415  slow to import, and needed only here
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415  the same
    from alembic.script import ScriptDirectory  # noqa: PLC0415  the same

    script = ScriptDirectory(str(migrations))

    def steps(current: Any, _: object) -> Any:
        return script._upgrade_revs("heads", current)  # noqa: SLF001  what `alembic upgrade heads` does before env.py

    options = {"fn": steps, "transactional_ddl": True, "version_table": version_table}
    context = MigrationContext.configure(connection, opts=options)
    with _ALEMBIC, context.begin_transaction(), Operations.context(context):
        context.run_migrations()


def _migrate_sqlite(url: URL, bring_up_to_date: Callable[[Connection], None]) -> None:
    # Not through aiosqlite, whose thread may report a failed connect to a loop that has ended meanwhile. Foreign keys
    # stay off: Alembic's batch mode replaces tables, and dropping one would delete what refers to it.
    engine = create_engine(
        url.set(drivername="sqlite"), poolclass=NullPool, connect_args=sqlite_arguments(_LOCK_SECONDS)
    ).execution_options(sqlite_begin="BEGIN IMMEDIATE")
    event.listen(engine, "connect", _to_wal)
    event.listen(engine, "begin", begin)
    with engine.connect() as connection:
        bring_up_to_date(connection)


def _to_wal(connection: Any, _: object) -> None:
    """Switch the file to WAL, for good. SQLite does not always wait here for another process that does the same."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        cursor = connection.cursor()
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)  # in the thread that migrates
        else:
            return
        finally:
            cursor.close()


async def _migrate_postgresql(database_id: str, url: URL, bring_up_to_date: Callable[[Connection], None]) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        # The lock has a connection of its own, outside any transaction: revisions may commit in between
        # (autocommit_block), and one that builds an index concurrently waits for every open transaction.
        async with engine.connect() as connection:
            locking = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await _lock(database_id, locking)
            async with engine.connect() as migrating:
                await migrating.run_sync(bring_up_to_date)
    finally:
        await engine.dispose()  # closing the connection gives the lock back


async def _lock(database_id: str, connection: AsyncConnection) -> None:
    deadline = asyncio.get_running_loop().time() + _LOCK_SECONDS
    take = text("SELECT pg_try_advisory_lock(:lock)").bindparams(lock=_ADVISORY_LOCK)
    while not await connection.scalar(take):
        if asyncio.get_running_loop().time() > deadline:
            raise DatabaseError(
                database_id, f"another process has been migrating it for {_LOCK_SECONDS} s: look there."
            )
        await asyncio.sleep(_POLL_SECONDS)
