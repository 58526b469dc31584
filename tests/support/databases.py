"""Databases of a test's own: on a PostgreSQL server, started when the first test asks for it, and on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ops.postgresql.programs import PostgresUnavailableError
from tests.support.postgres import PostgresServer, obtain


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        with obtain() as server:
            yield server
    except PostgresUnavailableError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> AsyncIterator[str]:
    name = f"test_{uuid4().hex}"
    yield await postgres.create_database(name)
    await postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    given: str = request.getfixturevalue("postgres_url")
    return given
