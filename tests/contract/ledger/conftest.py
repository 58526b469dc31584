"""One host for each test, whose workers have a ledger: in memory with SQLite, and on RabbitMQ with PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grundlag_bus import Ledger, Store
from tests.support.contract_registry import seen
from tests.support.hosts import Host, open_host
from tests.support.namespaces import fresh_namespace


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.node.callspec.params["host"] == "memory":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    given: str = request.getfixturevalue("postgres_url")
    return given


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


@pytest.fixture
def lease() -> float:
    """Seconds; a test that waits for the end of one overrides this."""
    return 30.0


@pytest.fixture
async def host(request: pytest.FixtureRequest, store: Store, lease: float) -> AsyncIterator[Host]:
    kind: str = request.param
    namespace = fresh_namespace()
    address = f"memory://{namespace}"
    if kind == "rabbitmq":
        address = request.getfixturevalue("amqp_url")
        request.getfixturevalue("_used")  # so that it ends after this
    seen.reset()
    async with open_host(kind, namespace, address, ledger=Ledger(store, lease=lease)) as opened:
        yield opened
        seen.reset()
        if kind == "rabbitmq":
            request.getfixturevalue("_used").extend(opened.namespaces)
        assert opened.bus_caller.in_flight == 0, "a call is waiting that nobody awaits"
    await store.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"
