"""DatabaseService: a provider's own database, opened and migrated when the first action asks for it.

- A `Database` says what is in it: SQLAlchemy tables, of which missing ones are created, or an Alembic script directory,
  which is upgraded to its heads. Only the revisions of the directory run: its `env.py` is for the command line.
- Migrating happens once, however many coroutines, workers and processes ask together: SQLite's write lock or a
  PostgreSQL advisory lock lets one in, and the others find the work done. It happens in one transaction and in a thread
  of its own (`store.migrating`).
- On SQLite, `begin` and `session` take the write lock when they begin: a transaction that reads first and then writes
  would otherwise fail as soon as another one wrote in between. Read through `engine` to read beside a writer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sqlalchemy import URL, Connection, MetaData, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from grundlag_bus.errors import ConfigurationError, DatabaseError, ServicesClosedError
from grundlag_bus.providers.opening import Opening
from grundlag_bus.schema.names import check_id
from grundlag_bus.store.engines import check_url, make_engines, reason, without_credentials
from grundlag_bus.store.migrating import migrate, upgrade

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager


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
            check_url(database.id, url)
            await asyncio.to_thread(migrate, database.id, url, partial(_bring_up_to_date, database))
            engines = make_engines(url)
            return DatabaseInstance(engines.engine, engines.writing)
        except DatabaseError:
            raise
        except Exception as error:
            place = "" if url is None else f" ({without_credentials(url)})"
            raise DatabaseError(database.id, f"{reason(error)}{place}") from error


def _bring_up_to_date(database: Database, connection: Connection) -> None:
    """Create or upgrade what is in the database, in one transaction."""
    if database.metadata is not None:
        with connection.begin():
            database.metadata.create_all(connection)
    elif database.migrations is not None:
        upgrade(connection, database.migrations)
