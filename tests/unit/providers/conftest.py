"""A PostgreSQL server, started when the first test asks for it, and a database of each test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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
