"""The `ledger` commands, on both databases: what is shown of a call, counted of all, and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from grundlag_bus import Call, Completed, Failed, Reply, Request, Store
from grundlag_bus.providers.disposition import Start
from grundlag_bus.schema.envelope import encode_call, encode_reply
from grundlag_bus.store.retention import DAY
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger.claims import Claim
from grundlag_bus.workers.ledger.outcomes import Hold
from grundlag_bus.workers.ledger.records import Records
from tests.support.command_line import CommandLine, Ended


class LedgerLine:
    """A store, and a command line that asks it."""

    def __init__(self, store: Store, cli: CommandLine) -> None:
        self.store = store
        self.cli = cli
        self.records = Records(store, lease=60)

    async def run(self, *arguments: str) -> Ended:
        return await asyncio.to_thread(self.cli.run, "ledger", *arguments)

    async def claim(self, name: str) -> Hold:
        def start(_: Call, /, *, lost: int, alone_at: int | None, entombed: bool, started: bool) -> Start:
            return Start()

        call = Call(name, "calendar", "createEvent", Request({}), deadline=2e9)
        await self.records.claim(Claim(call, "d", ("box-1", "box-2"), "worker-1"), start, alone=False)
        return Hold(name, 1)

    async def change(self, name: str, **values: Any) -> None:
        async with self.store.transaction() as connection:
            await connection.execute(update(calls).where(calls.c.call_id == name).values(values))

    async def count(self) -> int:
        async with self.store.reading() as connection:
            return await connection.scalar(select(func.count()).select_from(calls)) or 0


@pytest.fixture
async def ledger(store_url: str, tmp_path: Path) -> AsyncIterator[LedgerLine]:
    async with await Store.open(store_url) as store:
        yield LedgerLine(store, CommandLine(tmp_path, GRUNDLAG_LEDGER=store_url))


async def test_all_that_is_recorded_of_a_call_is_shown(ledger: LedgerLine) -> None:
    running, failed, waits = [await ledger.claim(name) for name in ("running", "failed", "waits")]
    await ledger.records.consume(running, "interrupt-1")
    await ledger.records.entomb(["running"])
    reply = Reply("failed", Failed("no_room", "There is no room."), "worker-1")
    await ledger.records.record(failed, encode_reply(reply), b"letter")
    again = Call("waits", "calendar", "createEvent", Request({}), deadline=2e9, generation=2)
    await ledger.records.hand_over(waits, again, encode_call(again), 7200)
    await ledger.records.handed(waits)
    await ledger.change("running", lost=2, alone_at=1, copy="copy-1", checkpoint=b"{}")

    shown = (await ledger.run("show", "running")).out
    for words in (
        r"calendar.createEvent",
        "leased: a worker has it",
        "started 1 times in all (the fence)",
        "2 starts of this generation, the last of them with nothing beside it, after 1",
        "box-1, box-2",
        "of worker-1, ends in",
        "consumed interrupt-1",
        "it starts no more",
        "copy-1, which looks after it",
        "of 2 bytes, where its next start continues",
    ):
        assert words in shown
    told = [(await ledger.run("show", name, "--json")).response for name in ("running", "failed", "waits")]
    assert [each["phase"] for each in told] == ["leased", "dead", "waiting"]
    assert 0 < told[0]["leaseLeft"] <= 60
    assert (told[0]["owner"], told[0]["startsLost"], told[0]["fence"]) == ("worker-1", 2, 1)
    assert told[1]["reply"] == {
        "bytes": len(encode_reply(reply)),
        "worker": "worker-1",
        "outcome": "failed",
        "code": "no_room",
        "message": "There is no room.",
    }
    assert told[1]["letterUnpublished"]
    assert 7000 < told[2]["nextDueIn"] <= 7200
    assert told[2]["generation"] == 2

    unknown = await ledger.run("show", "nobody")
    assert unknown.code == 1
    assert unknown.sentence == (
        "grundlag-bus: nothing is recorded of a call 'nobody': no worker with this ledger had it, or it was pruned."
    )


async def test_calls_are_counted_by_phase_and_age_and_leases_that_are_overdue_told(ledger: LedgerLine) -> None:
    await ledger.claim("held")
    await ledger.records.record(await ledger.claim("ended"), encode_reply(Reply("ended", Completed({}), "worker-1")))
    await ledger.claim("late")
    async with ledger.store.transaction() as connection:
        await connection.execute(
            update(calls)
            .where(calls.c.call_id == "late")
            .values(lease_until=ledger.store.now - 5, changed_at=ledger.store.now - 7300)
        )
    told = (await ledger.run("stats", "--json")).response
    assert told["ledger"] == ledger.store.id
    assert told["database"].startswith({"sqlite": "SQLite 3", "postgresql": "PostgreSQL "}[ledger.store.dialect])
    assert told["version"].isdecimal()
    assert told["bytes"] > 10_000
    assert told["calls"] == {"leased": 2, "free": 0, "handing": 0, "waiting": 0, "ended": 1, "dead": 0}
    assert told["ages"] == {"1h": 2, "1d": 1, "7d": 0, "45d": 0, "older": 0}
    assert (told["leases"]["held"], told["leases"]["overdue"]) == (1, 1)
    assert 7300 <= told["leases"]["oldest"] < 7400
    shown = (await ledger.run("stats")).out
    assert "1 held, 1 overdue, the oldest for 2 h 1 min" in shown
    assert "2 leased, 1 ended" in shown


async def test_old_records_are_removed_and_those_that_may_be_asked_for_only_when_that_is_said(
    ledger: LedgerLine,
) -> None:
    reply = encode_reply(Reply("x", Completed({}), "worker-1"))
    for name, days in (("old", 60), ("young", 3), ("new", 0)):
        await ledger.records.record(await ledger.claim(name), reply)
        await ledger.change(name, changed_at=ledger.store.now - days * DAY)
    await ledger.claim("runs")
    await ledger.change("runs", changed_at=ledger.store.now - 60 * DAY)
    nothing = await ledger.run("prune", "--dry-run")
    assert (nothing.code, nothing.sentence) == (
        0,
        "grundlag-bus: would remove 1 calls, 0 consumed answers and 0 cancellations.",
    )
    assert await ledger.count() == 4
    assert (await ledger.run("prune", "--json")).response == {
        "removed": {"calls": 1, "answers": 0, "tombstones": 0},
        "dryRun": False,
    }
    assert await ledger.count() == 3
    refused = await ledger.run("prune", "--older-than", "1d")
    assert refused.code == 2
    assert refused.sentence == (
        "grundlag-bus: --older-than 1d is less than the 43d in which something may still ask for a record: such a call "
        "would run again, and such an answer count twice. Add --forget where that may be."
    )
    forgotten = await ledger.run("prune", "--older-than", "1d", "--forget", "--json")
    assert forgotten.response["removed"]["calls"] == 1
    async with ledger.store.reading() as connection:
        assert sorted((await connection.execute(select(calls.c.call_id))).scalars()) == ["new", "runs"]


async def test_a_call_that_was_only_cancelled_is_known_too(ledger: LedgerLine) -> None:
    await ledger.records.entomb(["never"])
    told = (await ledger.run("show", "never", "--json")).response
    assert (told["phase"], told["cancelledAt"] is None) == (None, False)


async def test_a_database_of_another_version_is_left_alone(ledger: LedgerLine) -> None:
    for version, says in (
        ("0001", "is of an older grundlag-bus (0001)"),
        ("9999", "a newer grundlag-bus has upgraded"),
    ):
        async with ledger.store.transaction() as connection:
            await connection.execute(text(f"UPDATE grundlag_version SET version_num = '{version}'"))  # noqa: S608  ours
        refused = await ledger.run("stats")
        assert (refused.code, says in refused.sentence) == (2, True), refused.sentence


def test_no_ledger_is_made_by_asking_for_one(tmp_path: Path) -> None:
    cli = CommandLine(tmp_path)
    for command in (("show", "c"), ("stats",), ("prune",)):
        ended = cli.run("ledger", *command, "--ledger", f"sqlite:///{tmp_path}/none.sqlite")
        assert (ended.code, "no store is there" in ended.sentence) == (2, True), ended.sentence
    assert not (tmp_path / "none.sqlite").exists()
    (tmp_path / "empty.sqlite").touch()
    empty = cli.run("ledger", "stats", "--ledger", f"sqlite:///{tmp_path}/empty.sqlite")
    assert (empty.code, "no store is there" in empty.sentence) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("stats",), "No ledger is given: add --ledger sqlite:///FILE"),
        (("stats", "--ledger", "nonsense"), "The database 'store' could not be opened"),
        (("stats", "--ledger", "postgresql://ada:secret@127.0.0.1:1/x"), "(postgresql+asyncpg://127.0.0.1:1/x)"),
        (("prune", "--ledger", "sqlite:///x", "--older-than", "soon"), "--older-than 'soon' is no age"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    ended = CommandLine(tmp_path).run("ledger", *arguments)
    assert ended.code == 2
    assert says in ended.sentence
    assert "secret" not in ended.err
