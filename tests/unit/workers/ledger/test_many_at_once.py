"""Claims and outcomes of the same moment share a transaction, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event, insert, select, update

from grundlag_bus import Call, Request, Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.store.tables import calls, tombstones
from grundlag_bus.workers.ledger.claims import Claim, Claimed, Granted
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.ledger.verdicts import Held, Recorded, Reused

MANY = 40


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


@pytest.fixture
def statements(store: Store) -> list[str]:
    """What the store was told, but for the beginnings and ends of transactions."""
    told: list[str] = []

    def listen(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.startswith("BEGIN"):
            told.append(statement)

    event.listen(store._engines.engine.sync_engine, "before_cursor_execute", listen)
    return told


def call(name: str, **changes: Any) -> Call:
    return Call(name, "calendar", "createEvent", Request({}), **{"deadline": 2e9, **changes})


async def claim(records: Records, name: str, *, owner: str = "me", asked: str = "d", decide: Any = None) -> Claimed:
    def start(_: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool) -> Any:
        return Start() if decide is None else decide(entombed)

    return await records.claim(Claim(call(name), asked, (owner,), owner), start, alone=False)


async def test_calls_of_one_moment_are_claimed_by_one_statement_and_ended_by_another(
    store: Store, statements: list[str]
) -> None:
    records = Records(store, lease=60)
    names = [f"c{number}" for number in range(MANY)]
    claimed = await asyncio.gather(*(claim(records, name) for name in names))
    assert [each.fence for each in claimed if isinstance(each, Granted)] == [1] * MANY
    assert len(statements) == 1
    replies = {name: f'{{"said":"{name}\\u0000 äöü"}}'.encode() for name in names}
    recorded = await asyncio.gather(*(records.record(Hold(name, 1), replies[name]) for name in names))
    assert recorded == [(Recorded(replies[name], None), ("me",)) for name in names]
    assert len(statements) == 2
    async with store.transaction() as connection:
        rows = {row.call_id: row for row in await connection.execute(select(calls))}
    assert {name: rows[name].reply for name in names} == replies
    assert {(row.phase, row.owner, row.lease_until, row.letter) for row in rows.values()} == {
        ("ended", None, None, None)
    }


async def test_each_claim_has_its_own_verdict(store: Store) -> None:
    records = Records(store, lease=60)
    for name in ("ended", "held", "mine"):
        await claim(records, name, owner="me" if name == "mine" else "another")
    await records.record(Hold("ended", 1), b"{}", b"letter")
    async with store.transaction() as connection:
        await connection.execute(insert(tombstones).values(call_id="cancelled", cancelled_at=store.now))
    asked = {"ended": "d", "held": "d", "mine": "d", "new": "d", "another": "x", "cancelled": "d"}
    await claim(records, "another")
    told = await asyncio.gather(
        *(claim(records, name, asked=digest, decide=lambda entombed: entombed) for name, digest in asked.items())
    )
    ended, held, mine, new, another, cancelled = told
    assert ended == Recorded(b"{}", b"letter")
    assert isinstance(held, Held)
    assert isinstance(mine, Granted)
    assert mine.fence == 2
    assert new == Granted(1, call("new"), False)  # type: ignore[arg-type]  # what `decide` was told
    assert another == Reused()
    assert cancelled == Granted(1, call("cancelled"), True)  # type: ignore[arg-type]  # the same


async def test_outcomes_whose_leases_are_lost_are_told_apart_from_those_beside_them(store: Store) -> None:
    records = Records(store, lease=60)
    names = ("mine", "ended", "taken", "dead")
    await asyncio.gather(*(claim(records, name) for name in names))
    await records.record(Hold("ended", 1), b"first")
    async with store.transaction() as connection:
        await connection.execute(update(calls).where(calls.c.call_id == "taken").values(fence=2, owner="another"))
    told = await asyncio.gather(
        records.record(Hold("mine", 1), b"mine"),
        records.record(Hold("ended", 1), b"late"),
        records.record(Hold("taken", 1), b"late"),
        records.record(Hold("dead", 1), b"dead", b"letter"),
    )
    assert list(told) == [
        (Recorded(b"mine", None), ("me",)),
        (Recorded(b"first", None), ("me",)),
        None,
        (Recorded(b"dead", b"letter"), ("me",)),
    ]


async def test_a_claim_that_cannot_be_made_fails_no_other(store: Store) -> None:
    def fail(_: bool) -> Any:
        raise ValueError("of this call alone")

    records = Records(store, lease=60)
    told = await asyncio.gather(
        claim(records, "a"), claim(records, "b", decide=fail), claim(records, "c"), return_exceptions=True
    )
    assert [type(each) for each in told] == [Granted, ValueError, Granted]
    async with store.transaction() as connection:
        assert sorted((await connection.execute(select(calls.c.call_id))).scalars()) == ["a", "c"]


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
async def test_a_call_that_somebody_else_has_locked_holds_up_no_other(store: Store) -> None:
    records = Records(store, lease=60)
    await asyncio.gather(*(claim(records, name) for name in "abc"))
    async with store.transaction() as connection:
        await connection.execute(select(calls).where(calls.c.call_id == "b").with_for_update())
        waiting = [asyncio.create_task(claim(records, "b")), asyncio.create_task(records.record(Hold("b", 1), b"b"))]
        assert isinstance(await claim(records, "a"), Granted)
        told = await asyncio.gather(claim(records, "d"), claim(records, "a"), records.record(Hold("c", 1), b"c"))
        assert [each is not None for each in told] == [True] * 3
        assert not any(each.done() for each in waiting)
    assert any(isinstance(each, Granted | Recorded | tuple) for each in await asyncio.gather(*waiting))
