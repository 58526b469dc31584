"""SQLAlchemy engines on SQLite and PostgreSQL, the same for everything that is kept in a database.

On SQLite a writing transaction takes the write lock when it begins: one that reads first and then writes would
otherwise fail as soon as another one wrote in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from grundlag_bus.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

BUSY_SECONDS = 30.0  # how long a SQLite transaction waits for another one


@dataclass(frozen=True, slots=True)
class Engines:
    """One pool, as two engines: transactions of `writing` take the write lock as they begin."""

    engine: AsyncEngine
    writing: AsyncEngine


def check_url(database_id: str, url: URL) -> None:
    """Raise DatabaseError for what is no database that is supported here."""
    if url.drivername not in ("sqlite+aiosqlite", "postgresql+asyncpg"):
        raise DatabaseError(
            database_id,
            f"its URL begins with {url.drivername}://: use sqlite+aiosqlite:///FILE or postgresql+asyncpg://HOST/NAME.",
        )
    if is_sqlite(url) and (url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"):
        raise DatabaseError(
            database_id, "an in-memory database exists once per connection: give a file, in a temporary directory."
        )


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def make_engines(
    url: URL,
    *,
    busy: float = BUSY_SECONDS,
    synchronous: str = "NORMAL",
    postgresql: Mapping[str, Any] | None = None,
) -> Engines:
    """Make the engines of a database, which connect when they are used.

    synchronous: of SQLite; with WAL, NORMAL is safe but for the last moment before a power cut. postgresql: options
    of its engine instead of a ping before each use, which finds connections that did not survive their server.
    """
    if not is_sqlite(url):
        engine = create_async_engine(url, **({"pool_pre_ping": True} if postgresql is None else postgresql))
        return Engines(engine, engine)

    def prepare(connection: Any, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        cursor.close()

    engine = create_async_engine(url, connect_args=sqlite_arguments(busy))
    event.listen(engine.sync_engine, "connect", prepare)
    event.listen(engine.sync_engine, "begin", begin)
    return Engines(engine, engine.execution_options(sqlite_begin="BEGIN IMMEDIATE"))


def sqlite_arguments(busy: float) -> dict[str, Any]:
    """Let transactions begin when SQLAlchemy says so, not at the driver's first write, and wait for others."""
    return {"isolation_level": None, "timeout": busy}


def begin(connection: Connection) -> None:
    """Begin a transaction on SQLite, as the engine's options say (None: not yet). A listener."""
    how = connection.get_execution_options().get("sqlite_begin", "BEGIN")
    if how is not None:
        connection.exec_driver_sql(how)


def without_credentials(url: URL) -> str:
    return URL.create(url.drivername, host=url.host, port=url.port, database=url.database).render_as_string()


def reason(error: Exception) -> str:
    """Say what a driver says, without the SQL and its values."""
    if isinstance(error, ModuleNotFoundError) and error.name == "asyncpg":
        return "the driver asyncpg is not installed: pip install 'grundlag-bus[postgres]'"
    if isinstance(error, DBAPIError):
        error = error.orig if isinstance(error.orig, Exception) else error
    return f"{type(error).__name__}: {error}"
