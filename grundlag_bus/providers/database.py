"""DatabaseService: a provider's own database, opened and migrated when the first action asks for it.

- A `Database` says what is in it: SQLAlchemy tables, of which missing ones are created, or an Alembic script directory,
  which is upgraded to its heads. Only the revisions of the directory run: its `env.py` is for the command line.
- Migrating happens once, however many coroutines, workers and processes ask together: SQLite's write lock or a
  PostgreSQL advisory lock lets one in, and the others find the work done. It happens in one transaction and in a thread
  of its own, since revisions are synchronous and Alembic's `op` is one per process.
- On SQLite, `begin` and `session` take the write lock when they begin: a transaction that reads first and then writes
  would otherwise fail as soon as another one wrote in between. Read through `engine` to read beside a writer.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import URL, Connection, MetaData, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from grundlag_bus.errors import ConfigurationError, DatabaseError, ServicesClosedError
from grundlag_bus.providers.opening import Opening
from grundlag_bus.schema.names import check_id

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

_BUSY_SECONDS = 30  # how long a SQLite transaction waits for another one
_LOCK_SECONDS = 600  # how long to wait for another process that migrates
_POLL_SECONDS = 0.05
_ADVISORY_LOCK = 0x6772756E646C6167  # "grundlag", and the same for every database id: they may share one database
_ALEMBIC = threading.Lock()


@dataclass(frozen=True, slots=True)
class Database:
    """A database by its id, and what is in it: SQLAlchemy `metadata`, or the path of an Alembic script directory."""

    id: str
    metadata: MetaData | None = field(default=None, kw_only=True)
    migrations: str | os.PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_id("database", self.id)
        if (self.metadata is None) == (self.migrations is None):
            raise ConfigurationError(
                f"The database {self.id!r} needs either metadata= or migrations=: say one of the two."
            )


@dataclass(frozen=True, slots=True)
class DatabaseInstance:
    """An open database."""

    engine: AsyncEngine
    writing: AsyncEngine

    def begin(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a connection in a transaction, which is committed at the end and rolled back on an error."""
        return self.writing.begin()

    def session(self) -> AsyncSession:
        """Make an ORM session, to be used as an async context manager; it commits when told to."""
        return AsyncSession(self.writing, expire_on_commit=False)


class DatabaseService:
    """The databases of one worker; as an async context manager it closes those that were opened.

    url_for: gives the SQLAlchemy URL of a database id, `sqlite+aiosqlite:///...` or `postgresql+asyncpg://...`.
    """

    def __init__(self, url_for: Callable[[str], str | URL]) -> None:
        self._url_for = url_for
        self._opened: dict[str, tuple[Database, Opening[DatabaseInstance]]] = {}
        self._closed = False

    @classmethod
    def in_directory(cls, path: str | os.PathLike[str]) -> Self:
        """Keep each database in a SQLite file of its own in a directory, which is made when it is missing."""
        directory = Path(path).absolute()

        def url_for(database_id: str) -> URL:
            directory.mkdir(parents=True, exist_ok=True)
            return URL.create("sqlite+aiosqlite", database=str(directory / f"{database_id}.sqlite"))

        return cls(url_for)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get_instance(self, database: Database) -> DatabaseInstance:
        """Give an open, migrated database. Raises DatabaseError; whoever asks next tries again."""
        too_late = f"The database {database.id!r} was asked for after its DatabaseService was closed: ask before that."
        if self._closed:
            raise ServicesClosedError(too_late)
        known, opening = self._opened.get(database.id, (database, None))
        if known != database:
            raise ConfigurationError(f"Two different databases have the id {database.id!r}: rename one of them.")
        if opening is None or opening.failed:
            opening = Opening(self._open(database), what=f"database {database.id}", too_late=too_late)
            self._opened[database.id] = (database, opening)
        return await opening.wait()

    async def close(self) -> None:
        """Close every database that was opened; whoever waits for one gets ServicesClosedError."""
        self._closed = True
        openings = [opening for _, opening in self._opened.values()]
        self._opened.clear()
        instances = [await opening.close() for opening in openings]
        engines = [instance.engine for instance in instances if instance is not None]
        for failed in await asyncio.gather(*(engine.dispose() for engine in engines), return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed

    async def _open(self, database: Database) -> DatabaseInstance:
        url: URL | None = None
        try:
            url = make_url(self._url_for(database.id))
            _check_url(database, url)
            await asyncio.to_thread(_migrate, database, url)
            return _instance(url)
        except DatabaseError:
            raise
        except Exception as error:
            place = "" if url is None else f" ({_without_credentials(url)})"
            raise DatabaseError(database.id, f"{_reason(error)}{place}") from error


def _check_url(database: Database, url: URL) -> None:
    if url.drivername not in ("sqlite+aiosqlite", "postgresql+asyncpg"):
        raise DatabaseError(
            database.id,
            f"its URL begins with {url.drivername}://: use sqlite+aiosqlite:///FILE or postgresql+asyncpg://HOST/NAME.",
        )
    if _is_sqlite(url) and (url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"):
        raise DatabaseError(
            database.id, "an in-memory database exists once per connection: give a file, in a temporary directory."
        )


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


# --- engines ----------------------------------------------------------------------------------------------------------


def _instance(url: URL) -> DatabaseInstance:
    if not _is_sqlite(url):
        engine = create_async_engine(url, pool_pre_ping=True)  # connections do not survive a restart of the server
        return DatabaseInstance(engine, engine)
    engine = create_async_engine(url, connect_args=_sqlite_arguments(_BUSY_SECONDS))
    event.listen(engine.sync_engine, "connect", _enforce_foreign_keys)
    event.listen(engine.sync_engine, "begin", _begin)
    return DatabaseInstance(engine, engine.execution_options(sqlite_begin="BEGIN IMMEDIATE"))


def _sqlite_arguments(busy: float) -> dict[str, Any]:
    """Let transactions begin when SQLAlchemy says so, not at the driver's first write, and wait for others."""
    return {"isolation_level": None, "timeout": busy}


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def _enforce_foreign_keys(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")  # with WAL, safe but for the last moment before a power cut
    cursor.close()


# --- migrating --------------------------------------------------------------------------------------------------------


def _migrate(database: Database, url: URL) -> None:
    if _is_sqlite(url):
        _migrate_sqlite(database, url)
    else:
        asyncio.run(_migrate_postgresql(database, url))


def _migrate_sqlite(database: Database, url: URL) -> None:
    # Not through aiosqlite, whose thread may report a failed connect to a loop that has ended meanwhile. Foreign keys
    # stay off: Alembic's batch mode replaces tables, and dropping one would delete what refers to it.
    engine = create_engine(
        url.set(drivername="sqlite"), poolclass=NullPool, connect_args=_sqlite_arguments(_LOCK_SECONDS)
    ).execution_options(sqlite_begin="BEGIN IMMEDIATE")
    event.listen(engine, "connect", _to_wal)
    event.listen(engine, "begin", _begin)
    with engine.connect() as connection:
        _bring_up_to_date(connection, database)


def _to_wal(connection: Any, _: object) -> None:
    """Switch the file to WAL, for good. SQLite does not always wait here for another process that does the same."""
    deadline = time.monotonic() + _BUSY_SECONDS
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


async def _migrate_postgresql(database: Database, url: URL) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        # The lock has a connection of its own, outside any transaction: revisions may commit in between
        # (autocommit_block), and one that builds an index concurrently waits for every open transaction.
        async with engine.connect() as connection:
            locking = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await _lock(database, locking)
            async with engine.connect() as migrating:
                await migrating.run_sync(_bring_up_to_date, database)
    finally:
        await engine.dispose()  # closing the connection gives the lock back


async def _lock(database: Database, connection: AsyncConnection) -> None:
    deadline = asyncio.get_running_loop().time() + _LOCK_SECONDS
    take = text("SELECT pg_try_advisory_lock(:lock)").bindparams(lock=_ADVISORY_LOCK)
    while not await connection.scalar(take):
        if asyncio.get_running_loop().time() > deadline:
            raise DatabaseError(
                database.id, f"another process has been migrating it for {_LOCK_SECONDS} s: look there."
            )
        await asyncio.sleep(_POLL_SECONDS)


def _bring_up_to_date(connection: Connection, database: Database) -> None:
    """Create or upgrade what is in the database, in one transaction."""
    if database.metadata is not None:
        with connection.begin():
            database.metadata.create_all(connection)
        return
    from alembic.operations import Operations  # noqa: PLC0415  slow to import, and needed only here
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415  the same
    from alembic.script import ScriptDirectory  # noqa: PLC0415  the same

    script = ScriptDirectory(str(database.migrations))

    def steps(current: Any, _: object) -> Any:
        return script._upgrade_revs("heads", current)  # noqa: SLF001  what `alembic upgrade heads` does before env.py

    context = MigrationContext.configure(connection, opts={"fn": steps, "transactional_ddl": True})
    with _ALEMBIC, context.begin_transaction(), Operations.context(context):
        context.run_migrations()


# --- telling ----------------------------------------------------------------------------------------------------------


def _without_credentials(url: URL) -> str:
    return URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "asyncpg":
        return "the driver asyncpg is not installed: pip install 'grundlag-bus[postgres]'"
    if isinstance(error, DBAPIError):
        error = error.orig if isinstance(error.orig, Exception) else error  # without the SQL and its values
    return f"{type(error).__name__}: {error}"
