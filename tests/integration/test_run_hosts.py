"""Several hosts share a store: whichever is killed or paused, every run ends once, and no call is made twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from grundlag_bus import Ledger, Runs, SealKeys, Store
from tests.support.contract_registry import seen
from tests.support.hosts import Host, open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.run_host import Setting, run_host
from tests.support.runs import entries

LEASE = 5.0
RUNS = 12
SCRIPTS = 4
"""One run in so many is a script: each of them starts an engine, or several."""
HOSTS = 3

SOURCE = """
import asyncio

first = await contractEcho([number, 0])
several = await asyncio.gather(contractEcho([number, 1]), contractEcho([number, 2]), contractNote(str(number)))
(await contractEcho([number, 3]))["value"]
"""
ECHOES = 4


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with await Store.open(postgres_url) as opened:
        yield opened


@pytest.fixture
async def host(amqp_url: str, store: Store) -> AsyncIterator[Host]:
    namespace = fresh_namespace()
    seen.reset()
    try:
        async with open_host("rabbitmq", namespace, amqp_url, SealKeys.generate(), ledger=Ledger(store)) as opened:
            yield opened
    finally:
        seen.reset()
        await delete_namespaces(amqp_url, [namespace])


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_every_run_ends_once_whichever_hosts_are_killed_or_paused(
    host: Host, store: Store, postgres_url: str, amqp_url: str
) -> None:
    setting = Setting(amqp_url, host.namespace, postgres_url, LEASE)
    chance = random.Random(7)
    with ExitStack() as stack:
        hosts = [stack.enter_context(run_host(setting)) for _ in range(HOSTS)]
        async with Runs(store, host.bus, drives=False) as runs:
            started = [
                await runs.start_script(SOURCE, inputs={"number": number})
                if number % SCRIPTS == 0
                else await runs.start_call("contractEcho", {"value": [number, 3]})
                for number in range(RUNS)
            ]
            while await runs.list(status="running", limit=1):
                await asyncio.sleep(chance.uniform(3.0, 8.0))
                struck = chance.choice(hosts)
                assert struck.pid is not None
                if chance.random() < 0.5:
                    hosts.remove(struck)
                    struck.kill()
                    hosts.append(stack.enter_context(run_host(setting)))
                else:
                    os.kill(struck.pid, signal.SIGSTOP)
                    await asyncio.sleep(chance.uniform(0.5, 2 * LEASE))
                    os.kill(struck.pid, signal.SIGCONT)
            for number, run in enumerate(started):
                done = await runs.get(run.run_id)
                value = [number, 3] if done.kind == "script" else {"value": [number, 3]}
                assert (done.status, done.value) == ("completed", value), done
                kinds = [entry["kind"] for entry in await entries(runs, run)]
                calls = 5 if done.kind == "script" else 1
                assert (kinds.count("called"), kinds.count("settled"), kinds.count("run.ended")) == (calls, calls, 1)
    scripts = RUNS // SCRIPTS
    assert (seen.runs["echo"], len(seen.notes)) == (ECHOES * scripts + RUNS - scripts, scripts)
