"""Runs on a host whose workers have a ledger in the same store: in memory with SQLite, on RabbitMQ with PostgreSQL.

Each test runs twice: as it is, and with every run's state rebuilt from its journal whenever something was written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from grundlag_bus import Runs, Store
from grundlag_bus.durable.host import Host as RunHost
from grundlag_bus.sandbox.script.running import Running
from tests.contract.ledger import conftest as of_ledger
from tests.support.hosts import Host

store_url, store, lease, host = of_ledger.store_url, of_ledger.store, of_ledger.lease, of_ledger.host


@pytest.fixture(autouse=True, params=["live", "replayed"])
def _replayed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunHost, "replay_always", request.param == "replayed")
    monkeypatch.setattr(Running, "replay_always", request.param == "replayed")


@pytest.fixture
async def runs(host: Host, store: Store) -> AsyncIterator[Runs]:
    async with Runs(store, host.bus) as opened:
        yield opened
