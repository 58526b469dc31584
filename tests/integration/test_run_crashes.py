"""Hosts of runs are killed between any two steps: the run ends as if none had been, and nothing is called twice.

One run is killed at every point in turn, each time in another host process; its workers are in this process.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from grundlag_bus import Ledger, Runs, SealKeys, Store
from grundlag_bus.durable import failpoints
from grundlag_bus.durable.agents import transcript_of
from grundlag_bus.store.tables import calls
from tests.support.agents import assert_whole
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.run_host import Setting, run_host
from tests.support.runs import ended, entries, question

LEASE = 0.6

# It is parked while it waits for what is deferred, before it asks: what parks a run that asks may have told of that.
SOURCE = """
import asyncio

first = await contractEcho(1)
again = await contractFlaky(times=1)
deferred = await contractLater(times=1, after=6)
await contractEcho(2)
several = await asyncio.gather(contractAskBeside("a"), contractAskBeside("b"), contractEcho(3))
for number in range(4, 8):
    await contractEcho(number)
[first, again["attempt"], several[0]["approved"], several[1]["approved"], several[2]]
"""
OF_SCRIPTS = tuple(point for point in failpoints.POINTS if point != "entry.replied")
OF_AGENTS = (
    "entry.replied",
    "entry.called",
    "call.recorded",
    "call.confirmed",
    "entry.settled",
    "run.parked",
    "run.ended",
)
CALLS = 11
ECHOES = 7


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


@pytest.fixture
async def host(amqp_url: str, store: Store, tmp_path: Path) -> AsyncIterator[Host]:
    namespace = fresh_namespace()
    seen.reset()
    try:
        async with open_host("rabbitmq", namespace, amqp_url, SealKeys.generate(), ledger=Ledger(store)) as opened:
            yield opened
    finally:
        seen.reset()
        await delete_namespaces(amqp_url, [namespace])


@pytest.mark.long
@pytest.mark.timeout(280)
async def test_a_host_may_be_killed_between_any_two_steps(
    host: Host, store: Store, store_url: str, amqp_url: str
) -> None:
    setting = Setting(amqp_url, host.namespace, store_url, LEASE)
    async with Runs(store, host.bus, drives=False) as runs:
        run = await runs.start_script(SOURCE, user_id="ada")
        for point in OF_SCRIPTS:
            with run_host(replace(setting, point=point)) as process:
                for about in ("a", "b") if point == OF_SCRIPTS[-1] else ():
                    await runs.answer(await question(runs, run, about), {"approved": about == "a"}, by="ada")
                await eventually(lambda: process.exitcode is not None, within=60)
                assert (point, process.exitcode) == (point, -signal.SIGKILL)
        done = await ended(runs, run)
        assert done.value == [{"value": 1}, 2, True, False, {"value": 3}]
        written = await entries(runs, run)
    assert [entry["kind"] for entry in written].count("called") == CALLS
    settled = [entry["call"] for entry in written if entry["kind"] == "settled"]
    assert sorted(settled) == sorted([*range(CALLS), 4, 5])  # two of them asked first
    assert (seen.runs["echo"], seen.runs["askBeside"]) == (ECHOES, 2)
    assert [note[0] for note in seen.notes] == ["flaky"] * 2 + ["later"] * 2 + [
        "asked",
        "asked",
        "answered",
        "answered",
    ]
    async with store.transaction() as connection:
        rows = (await connection.execute(select(calls))).all()
    assert len(rows) == CALLS + 2
    assert {row.phase for row in rows} == {"ended"}


@pytest.mark.long
@pytest.mark.timeout(280)
async def test_an_agents_host_may_be_killed_between_any_two_steps(
    host: Host, store: Store, store_url: str, amqp_url: str
) -> None:
    setting = Setting(amqp_url, host.namespace, store_url, LEASE)
    async with Runs(store, host.bus, drives=False) as runs:
        run = await runs.start_agent("Do it.", user_id="ada")
        for point in OF_AGENTS:
            with run_host(replace(setting, point=point)) as process:
                if point == OF_AGENTS[-1]:
                    await runs.answer(await question(runs, run, "a"), {"approved": True}, by="ada")
                await eventually(lambda: process.exitcode is not None, within=60)
                assert (point, process.exitcode) == (point, -signal.SIGKILL)
        assert (await ended(runs, run)).value == "Done: 4 turns."
        written = await entries(runs, run)
    transcript = transcript_of([entry for entry in written if not entry["kind"].startswith("run.")])
    assert_whole(transcript)
    assert [call.name for call in transcript.calls] == ["contractEcho"] * 6 + ["contractAsk"]
    assert (seen.runs["echo"], seen.runs["ask"]) == (6, 1)


def test_every_point_has_a_test() -> None:
    assert set(OF_SCRIPTS) | set(OF_AGENTS) == set(failpoints.POINTS)
