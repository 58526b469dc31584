"""What looks after a call is on record as long as it is on the broker, and no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from grundlag_bus import Call, Request, Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger.claims import Claim, Granted
from grundlag_bus.workers.ledger.long_records import LongRecords
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from grundlag_bus.workers.ledger.verdicts import Held, Recorded, Verdict, Watched

CALL = Call("c1", "calendar", "createEvent", Request({}), deadline=2e9, lane="long")


told: list[bool] = []


def start(_: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool) -> Start:
    """Start it, and remember whether it was said to have been started before."""
    told.append(started)
    return Start()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


class Fleet:
    """Workers that share records."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.records = Records(store, lease=60)
        self.long = LongRecords(store)

    async def deliver(self, copy: str | None, owner: str = "one", mailboxes: tuple[str, ...] = ()) -> Granted | Verdict:
        claim = Claim(
            replace(CALL, copy=copy), "d", mailboxes, owner, early=True, copies=() if copy is None else (copy,)
        )
        claimed = await self.records.claim(claim, start, alone=False)
        assert isinstance(claimed, Granted | Verdict)
        return claimed

    async def begin(self, copy: str, owner: str = "one", mailboxes: tuple[str, ...] = ()) -> Hold:
        granted = await self.deliver(None, owner, mailboxes)
        assert isinstance(granted, Granted)
        hold = Hold(CALL.call_id, granted.fence)
        assert await self.long.watched(hold, copy)
        return hold

    async def end_lease(self) -> None:
        async with self.store.transaction() as connection:
            await connection.execute(update(calls).values(lease_until=self.store.now - 1))

    async def copy(self) -> str | None:
        async with self.store.transaction() as connection:
            return await connection.scalar(select(calls.c.copy))


@pytest.fixture
def fleet(store: Store) -> Fleet:
    return Fleet(store)


async def test_the_copy_on_record_goes_around_and_no_other_delivery_does(fleet: Fleet) -> None:
    await fleet.begin("a")
    assert isinstance(await fleet.deliver("a", "two"), Held)
    assert isinstance(await fleet.deliver(None, "two", ("somebody",)), Watched)
    assert isinstance(await fleet.deliver("made up", "two"), Watched)
    await fleet.long.replaced(CALL, "a", "b")
    assert isinstance(await fleet.deliver("a", "two"), Watched)
    assert isinstance(await fleet.deliver("b", "two"), Held)


async def test_one_of_two_that_replace_the_same_copy_counts(fleet: Fleet) -> None:
    await fleet.begin("a")
    for copy in ("b", "c"):
        await fleet.long.replaced(CALL, "a", copy)
    assert await fleet.copy() == "b"


async def test_a_copy_is_replaced_of_a_call_that_was_given_back_too(fleet: Fleet) -> None:
    """Its worker may claim it again with nothing in hand, and then the copy is all that looks after it."""
    hold = await fleet.begin("a")
    await fleet.records.release([hold])
    await fleet.long.replaced(CALL, "a", "b")
    assert isinstance(await fleet.deliver(None), Granted)
    assert isinstance(await fleet.deliver("b", "two"), Held)


async def test_what_was_given_back_once_it_had_begun_counts_as_started(fleet: Fleet) -> None:
    told.clear()
    granted = await fleet.deliver(None)
    assert isinstance(granted, Granted)
    await fleet.records.release([Hold(CALL.call_id, granted.fence)])
    hold = await fleet.begin("a")
    await fleet.records.release([hold])
    await fleet.deliver("a", "two")
    assert told == [False, False, True]


async def test_what_is_dead_goes_on_from_its_checkpoint_when_it_is_redriven(fleet: Fleet) -> None:
    hold = await fleet.begin("a")
    await fleet.long.checkpoint(hold, b"7")
    await fleet.records.record(hold, b"r", b"letter")
    claim = Claim(replace(CALL, generation=2), "d", ("ada",), "one", early=True)
    redriven = await fleet.records.claim(claim, start, alone=False)
    assert isinstance(redriven, Granted)
    assert redriven.checkpoint == b"7"
    assert await fleet.copy() is None


async def test_a_copy_of_an_older_generation_looks_after_nothing(fleet: Fleet) -> None:
    hold = await fleet.begin("a")
    await fleet.records.hand_over(hold, replace(CALL, generation=2), b"{}", 0)
    for copy in ("a", None):
        await fleet.long.replaced(CALL, copy, "b")
    assert await fleet.copy() is None


async def test_who_takes_over_has_the_checkpoint_and_all_who_wait(fleet: Fleet) -> None:
    hold = await fleet.begin("a", mailboxes=("ada",))
    assert await fleet.long.checkpoint(hold, b"7")
    await fleet.deliver(None, "two", ("bob",))
    await fleet.end_lease()
    taken = await fleet.deliver("a", "two")
    assert isinstance(taken, Granted)
    assert (taken.checkpoint, taken.mailboxes, taken.call.copy) == (b"7", ("ada", "bob"), None)
    assert not await fleet.long.checkpoint(hold, b"8")
    assert not await fleet.long.watched(hold, "late")


async def test_who_has_a_reply_is_not_sent_it_again(fleet: Fleet) -> None:
    hold = await fleet.begin("a", mailboxes=("ada",))
    await fleet.records.record(hold, b"r")
    assert await fleet.deliver("a", "two") == Recorded(b"r", None, ("ada",))
    await fleet.long.replied(CALL.call_id)
    assert await fleet.deliver("a", "two") == Recorded(b"r", None)
    assert await fleet.copy() is None
