"""A PostgreSQL server, started when the first test asks for it, and a database of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.postgres import PostgresServer, PostgresUnavailableError


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    try:
        with PostgresServer() as server:
            yield server
    except PostgresUnavailableError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    return await postgres.create_database(f"test_{uuid4().hex}")
