"""The store: one database, SQLite or PostgreSQL, whose clock is the one that its records go by."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import (
    URL,
    ColumnElement,
    Float,
    literal,
    literal_column,
    make_url,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_postgresql
from sqlalchemy.dialects.sqlite import insert as insert_sqlite
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from grundlag_bus.errors import DatabaseError, StoreAwayError
from grundlag_bus.store.engines import Engines, check_url, is_sqlite, make_engines, reason, without_credentials
from grundlag_bus.store.late import LateLock
from grundlag_bus.store.migrating import migrate
from grundlag_bus.store.tables import store as store_table
from grundlag_bus.store.versions import NAME, bring_up_to_date, check_there, check_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sqlalchemy import Subquery, Table
    from sqlalchemy.dialects.postgresql import Insert as InsertPostgresql
    from sqlalchemy.dialects.sqlite import Insert as InsertSqlite
    from sqlalchemy.ext.asyncio import AsyncConnection

WITHIN = 10.0
"""Seconds that a statement is waited for, and a lock."""
_CONNECT_WITHIN = 5.0
_LISTEN_AGAIN = 1.0
_POOL = {"pool_size": 10, "max_overflow": 10, "pool_timeout": WITHIN}
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_CLOCKS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "cast(extract(epoch from clock_timestamp()) as double precision)",
}


class Store:
    """An open store. Made by `open`; as an async context manager it closes itself.

    id: tells it from every other store; dialect: sqlite or postgresql; now: the database's clock, Unix seconds, to be
    used in statements.
    """

    def __init__(self, url: URL, engines: Engines, long: Engines, id: str) -> None:  # noqa: A002  the word
        self.id = id
        self.dialect = url.get_backend_name()
        self.now: ColumnElement[float] = literal_column(_CLOCKS[self.dialect], Float)
        self._sqlite = is_sqlite(url)
        self._engines = engines
        self._long = long
        self._turn = asyncio.Lock()
        if self._sqlite:
            LateLock(long.engine, self._turn)

    @classmethod
    async def open(cls, url: str | URL, *, make: bool = True) -> Self:
        """Open a store, by `sqlite:///FILE` or `postgresql://HOST/NAME`.

        make: it is made or upgraded where that is needed. Raises DatabaseError: it is away, may not be written, was
        upgraded by a newer program, or needs what `make` forbids.
        """
        place = ""
        engines: list[Engines] = []
        try:
            address = make_url(url)
            address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
            place = f" ({without_credentials(address)})"
            check_url(NAME, address)
            if make:
                await asyncio.to_thread(migrate, NAME, address, bring_up_to_date)
            else:
                check_there(address)
            # What an action does in a transaction of its own takes no connection from claims and renewals.
            engines += [_engines(address), _engines(address)]
            async with (engines[0].writing if make else engines[0].engine).begin() as connection:
                if make:
                    opened_at = literal_column(_CLOCKS[address.get_backend_name()], Float)
                    await connection.execute(update(store_table).values(opened_at=opened_at))
                else:
                    await connection.run_sync(check_version)
                found = await connection.scalar(select(store_table.c.id))
            return cls(address, engines[0], engines[1], str(found))
        except BaseException as error:
            for opened in engines:
                await opened.engine.dispose()
            if isinstance(error, DatabaseError) or not isinstance(error, Exception):
                raise
            raise DatabaseError(NAME, f"{reason(error)}{place}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._engines.engine.dispose()
        await self._long.engine.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection in a writing transaction, committed at the end and rolled back on an error.

        Raises StoreAwayError when the database does not answer, or cannot write; whether it committed is then unsure.
        """
        if not self._sqlite:
            async with self._asking(), self._engines.writing.begin() as connection:
                yield connection
            return
        # One at a time in this process: SQLite's own waiting is by sleeps.
        async with self._turn, self._asking(), self._engines.writing.begin() as connection:
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection to read by, which holds up nobody on SQLite either. Raises StoreAwayError."""
        async with self._asking(), self._engines.engine.begin() as connection:
            yield connection

    async def begin_long(self) -> AsyncConnection:
        """Open a connection in a writing transaction of an action's own, for the caller to end and close.

        On SQLite nothing else is written from its first write on. Raises StoreAwayError.
        """
        async with self._asking():
            connection = await self._long.engine.execution_options(sqlite_begin=None).connect()
            try:
                _ = await connection.begin()
            except BaseException:
                # A driver goes on with what it was told to begin, and holds up all who write once it has.
                await asyncio.shield(connection.close())
                raise
        return connection

    def insert_new(
        self, table: Table, row: Mapping[str, Any], *, each: Subquery | None = None
    ) -> InsertSqlite | InsertPostgresql:
        """Make a statement that inserts a row, unless there is one of the same key.

        each: a table, for each row of which one is inserted, with columns of it among the values; in the order of the
        keys, so that two that insert the same never wait for each other.
        """
        insert = (insert_sqlite if self._sqlite else insert_postgresql)(table)
        if each is None:
            insert = insert.values(row)
        else:
            values = [
                value if isinstance(value, ColumnElement) else literal(value, table.c[name].type)
                for name, value in row.items()
            ]
            keys = [row[column.name] for column in table.primary_key]
            # With a WHERE, since SQLite would take ON CONFLICT for a part of the SELECT.
            insert = insert.from_select(list(row), select(*values).where(true()).order_by(*keys))
        return insert.on_conflict_do_nothing(index_elements=list(table.primary_key))

    async def notify(self, connection: AsyncConnection, channel: str) -> None:
        """Let whoever listens, in any process, hear when the transaction is committed; on SQLite nobody does."""
        if not self._sqlite:
            await connection.execute(text("SELECT pg_notify(:channel, '')").bindparams(channel=channel))

    async def listen(self, channel: str, hear: Callable[[], None]) -> None:
        """Call `hear` for each notification, and whenever some may have been missed, until cancelled."""
        while not self._sqlite:
            with suppress(OSError, DBAPIError, NoConnectionError):
                await self._listen_once(channel, hear)
            await asyncio.sleep(_LISTEN_AGAIN)

    async def _listen_once(self, channel: str, hear: Callable[[], None]) -> None:
        """Listen until the connection ends."""
        ended = asyncio.Event()
        async with self._engines.engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            driver.add_termination_listener(lambda _: ended.set())
            await driver.add_listener(channel, lambda *_: hear())
            hear()
            try:
                await ended.wait()
            finally:
                await connection.invalidate()

    async def ping(self) -> None:
        """Ask for something, and write it. Raises StoreAwayError."""
        async with self.transaction() as connection:
            await connection.execute(update(store_table).values(opened_at=self.now))

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(2 * WITHIN):
                yield
        except Exception as error:
            if not is_away(error):
                raise
            raise StoreAwayError(f"The store's database does not serve: {reason(error)}.") from error


_STOPPING = ("08", "53", "57P")
"""How PostgreSQL's codes begin for a connection that fails, for what it lacks, and for a shutdown."""


def is_away(error: Exception) -> bool:
    """Whether an error says something of the database and its connection, and nothing of what was asked."""
    if isinstance(error, DBAPIError):
        stopping = str(getattr(error.orig, "sqlstate", None)).startswith(_STOPPING)
        return stopping or isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
    return isinstance(error, OSError | TimeoutError | NoConnectionError) or type(error).__module__.startswith("asyncpg")


def _engines(url: URL) -> Engines:
    postgresql = {**_POOL, "connect_args": {"timeout": _CONNECT_WITHIN, "command_timeout": WITHIN}}
    return make_engines(url, busy=WITHIN, synchronous="FULL", postgresql=postgresql)
