"""The PostgreSQL server that tests use: given by its address, private on this machine, or in a container.

`obtain` decides which. It is never skipped: when none can be had, one sentence says what to do.
"""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ops.postgresql.programs import PostgresUnavailableError, installed_programs, unpacked_programs
from ops.postgresql.server import PrivateServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class _Running(Protocol):
    """A server of our own."""

    @property
    def url(self) -> str: ...


class PostgresServer:
    """A server, by the address of a database of it and of a user who may make others."""

    def __init__(self, url: str) -> None:
        try:
            self.address = make_url(url).set(drivername="postgresql+asyncpg")
        except (ArgumentError, ValueError):
            raise PostgresUnavailableError(
                "GRUNDLAG_TEST_POSTGRES_URL is no address: write postgresql://user:password@host:5432/postgres."
            ) from None

    def url(self, **changes: Any) -> str:
        return self.address.set(**changes).render_as_string(hide_password=False)

    async def create_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        await self._execute(f'CREATE DATABASE "{name}"')
        return self.url(database=name)

    async def drop_database(self, name: str) -> None:
        await self._execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url(drivername="postgresql"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def obtain() -> Iterator[PostgresServer]:
    """Get a server: the one that is named, or of the installed programs, in a container, or of unpacked ones."""
    url = os.environ.get("GRUNDLAG_TEST_POSTGRES_URL")
    if url:
        yield _given(url)
        return
    programs = installed_programs()
    with PrivateServer(programs) if programs else _not_installed() as server:
        yield PostgresServer(server.url)


def _not_installed() -> AbstractContextManager[_Running]:
    from tests.support.container import engine_answers  # noqa: PLC0415  slow, and often not needed

    if not engine_answers():
        return PrivateServer(unpacked_programs())
    from tests.support.postgres_container import ContainerServer  # noqa: PLC0415  the same

    return ContainerServer()


def _given(url: str) -> PostgresServer:
    server = PostgresServer(url)
    host, port = server.address.host or "localhost", server.address.port or 5432
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise PostgresUnavailableError(
            f"No server answers at {host}:{port} ({error}): "
            "mend GRUNDLAG_TEST_POSTGRES_URL, or unset it to have one made."
        ) from None
    return server
