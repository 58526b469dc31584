"""An action of four minutes where the broker waits for thirty seconds, whose workers are evicted and not there."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from sqlalchemy import select

from grundlag_bus import Completed, Ledger, SealKeys, Store
from grundlag_bus.store.tables import calls
from tests.support import long_actions
from tests.support.crashing_worker import Setting, crashing_worker
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.mailboxes import call_of, mailbox
from tests.support.transports import administration_of

pytestmark = pytest.mark.long

LEASE = 10.0
SECONDS = 240


class March:
    """The action as its test sees it: where each start began, by a file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.begun = time.monotonic()

    @property
    def starts(self) -> list[int]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [int(line.split(" ")[-1]) for line in lines]

    @property
    def passed(self) -> float:
        return time.monotonic() - self.begun

    def tell(self, what: str) -> None:
        print(f"{self.passed:6.1f} s  {what}")  # noqa: T201  what somebody who waits for minutes reads

    async def started(self, times: int) -> None:
        await eventually(lambda: len(self.starts) == times, within=90)
        self.tell(f"start {times}, at second {self.starts[-1]} of the action")

    async def evict(self, process: BaseProcess) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGTERM)
        await eventually(lambda: process.exitcode is not None, within=60)
        assert process.exitcode == 0
        self.tell("a worker was evicted")


@pytest.mark.timeout(600)
async def test_it_ends_once_and_from_its_checkpoints(
    amqp_url: str, namespace: str, postgres_url: str, tmp_path: Path
) -> None:
    march, keys, key_file = March(tmp_path / "starts"), SealKeys.generate(), tmp_path / "keys"
    keys.save(key_file)
    setting = Setting(amqp_url, namespace, str(key_file), postgres_url, LEASE, long=True, consumer_timeout=30.0)
    async with AsyncExitStack() as opened:
        store = await opened.enter_async_context(await Store.open(postgres_url))
        hosted = open_host(
            "rabbitmq",
            namespace,
            amqp_url,
            keys,
            ledger=Ledger(store, lease=LEASE),
            offers=long_actions.make_registry,
        )
        host = await opened.enter_async_context(hosted)
        await host.stop_workers()
        box = await opened.enter_async_context(mailbox(host))
        first = await opened.enter_async_context(crashing_worker(setting))
        wanted = {"seconds": SECONDS, "file": str(march.file)}
        await box.send(call_of("march", wanted, lane="long", deadline=time.time() + 900))
        await march.started(1)
        await asyncio.sleep(75)
        await march.evict(first)
        await asyncio.sleep(25)  # nobody is there
        second = await opened.enter_async_context(crashing_worker(setting))
        await march.started(2)
        await asyncio.sleep(75)
        third = await opened.enter_async_context(crashing_worker(setting))
        await asyncio.sleep(5)
        since = march.passed
        await march.evict(second)
        await march.started(3)
        assert march.passed - since < LEASE, "it was handed over, and waited for no lease"
        (reply,) = await box.replies(within=300)
        march.tell(f"replied: {reply.response}")
        assert reply.response == Completed({"began": march.starts[2], "attempt": 1})
        assert march.passed > SECONDS
        await asyncio.sleep(2 * LEASE)
        assert len(await box.replies()) == 1
        await march.evict(third)
        await nothing_is_left(host, store, march)


async def nothing_is_left(host: Host, store: Store, march: March) -> None:
    first, second, third = march.starts
    assert first == 0
    assert 40 <= second <= 80, "a slow machine is not the point, and a lost checkpoint is"
    assert second + 40 <= third <= second + 90
    async with store.transaction() as connection:
        row = (await connection.execute(select(calls))).one()
    march.tell(f"recorded: {row.phase}, started {row.fence} times, lost {row.lost}")
    assert (row.phase, row.fence, row.lost, row.copy, row.mailboxes) == ("ended", 3, 0, None, "")
    transport = host.transport()
    await transport.open()
    administration = await administration_of(transport)
    counts = await administration.count(transport.topology.call_queue("contract", "long").name)
    await administration.close()
    await transport.close()
    assert counts is not None
    assert counts.messages == 0
