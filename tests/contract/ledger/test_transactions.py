"""What an action does in the ledger's own transaction happens once, and its fence grows with each start."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select, text

from grundlag_bus import ActionFailed, InternalError, Store
from grundlag_bus.store.tables import calls
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses

pytestmark = on_buses


@pytest.fixture(autouse=True)
async def _effects(store: Store) -> None:
    async with store.transaction() as connection:
        await connection.execute(text("CREATE TABLE effects (name VARCHAR(50), fence INTEGER)"))


async def effects(store: Store) -> list[tuple[str, int]]:
    async with store.transaction() as connection:
        return [(name, fence) for name, fence in await connection.execute(text("SELECT name, fence FROM effects"))]


async def test_an_effect_is_committed_with_the_outcome(host: Host, store: Store) -> None:
    assert await host.execute("effect", {"name": "paid"}) == {"name": "paid"}
    assert await effects(store) == [("paid", 1)]


async def test_an_effect_whose_action_fails_afterwards_is_rolled_back(host: Host, store: Store) -> None:
    with pytest.raises(ActionFailed):
        await host.execute("effect", {"name": "fail"})
    assert await effects(store) == []
    async with store.transaction() as connection:
        assert (await connection.execute(select(calls.c.phase))).scalars().all() == ["ended"]


async def test_an_effect_of_a_start_that_is_repeated_happens_once_under_the_greater_fence(
    host: Host, store: Store
) -> None:
    assert await host.execute("effect", {"name": "retry"}) == {"name": "retry"}
    assert await effects(store) == [("retry", 2)]
    assert seen.runs["effect retry"] == 2


async def test_an_action_whose_connection_is_lost_starts_again_instead_of_failing(host: Host, store: Store) -> None:
    assert await host.execute("effect", {"name": "lost"}) == {"name": "lost"}
    assert await effects(store) == [("lost", 2)]
    assert seen.runs["effect lost"] == 2


async def test_a_transaction_is_opened_once_in_a_start(host: Host, store: Store) -> None:
    with pytest.raises(InternalError):
        await host.execute("effect", {"name": "twice"})
    assert await effects(store) == []


class TestOpenFor:
    """A transaction is open for longer than a lease is without renewal."""

    @pytest.fixture
    def lease(self) -> float:
        return 3.0

    async def test_until_it_writes_calls_beside_it_are_recorded_and_leases_renewed(
        self, host: Host, store: Store
    ) -> None:
        long = asyncio.create_task(host.execute("effectLast", {"name": "late"}))
        await eventually(lambda: seen.runs["effect late"] == 1)
        assert await host.execute("effect", {"name": "beside"}) == {"name": "beside"}
        await asyncio.sleep(3.5)
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        seen.gate("late").set()
        assert await long == {"name": "late"}
        assert await effects(store) == [("beside", 1), ("late after 0", 1)]
