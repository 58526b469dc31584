"""A lease and the transaction that its action opens: whatever happens, nothing of it stays open."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grundlag_bus import Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.schema.envelope import Call, Request
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.ledger.claims import Granted
from grundlag_bus.workers.ledger.lease import Lease
from grundlag_bus.workers.ledger.long_records import LongRecords
from grundlag_bus.workers.ledger.presence import Presence
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.run import Run

WRITES_WITHIN = 5.0
"""Seconds: less than a store waits for a lock, so that one which is never let go is noticed."""


class Unsettled:
    """A delivery that nobody settles."""

    redelivered, lost, held = False, 0, True
    message = Message(b"{}", "call")

    def ack(self) -> None: ...
    def nack(self) -> None: ...
    def reject(self) -> None: ...


async def nothing() -> None: ...


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.sqlite"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await Store.open(url) as opened:
        yield opened


@pytest.fixture
async def other(url: str, store: Store) -> AsyncIterator[Store]:
    """Another process's, on the same file."""
    async with await Store.open(url) as opened:
        yield opened


async def test_a_transaction_that_begins_only_when_its_call_was_given_up_holds_no_lock(
    store: Store, other: Store
) -> None:
    presence = Presence(store, gone=nothing, back=nothing)
    run = Run(Call("c", "p", "a", Request({}), math.inf), Unsettled())
    granted, records, long_records = Granted(1, run.call, Start()), Records(store, 30.0), LongRecords(store)
    lease = Lease(run, granted, records, long_records, presence, store, until=math.inf, early=False)

    async def act() -> None:
        async with lease.transaction():
            pytest.fail("it was given up before")

    before = await other.begin_long()
    acting = asyncio.create_task(act())
    await asyncio.sleep(0.2)  # it waits for the lock by now, and so it does when it does not yet
    acting.cancel()
    await asyncio.wait({acting})
    await lease.close()
    await before.close()
    await presence.settle(within=10)
    async with asyncio.timeout(WRITES_WITHIN):
        await other.ping()
