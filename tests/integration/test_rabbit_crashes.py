"""Worker processes that their calls kill, on RabbitMQ: the calls are found out, and the others complete."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import AttemptsExhaustedError, SealKeys, ToolContext
from grundlag_bus.transport import Message
from tests.support.broker import Broker
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.transports import Inbox, in_time
from tests.support.worker_process import supervised_worker


@pytest.fixture(autouse=True)
def _on_a_broker_that_counts(broker: Broker) -> None:
    if broker.version.startswith("3."):
        pytest.skip("this broker counts what is given back, so that no budget is kept")


class Calls:
    """Calls that note their starts in files, and wait for files."""

    def __init__(self, host: Host, folder: Path, *, poison: int, innocent: int) -> None:
        self.folder = folder
        self.poison = [str(folder / f"poison{n}") for n in range(poison)]
        self.innocent = [str(folder / f"innocent{n}") for n in range(innocent)]
        context = ToolContext(timeout=600)

        def call(action: str, name: str) -> asyncio.Task[Any]:
            return asyncio.create_task(host.execute(action, {"name": name}, context))

        self.deaths = [call("die", name) for name in self.poison]
        self.works = [call("holdByFile", name) for name in self.innocent]

    def starts(self) -> list[list[int]]:
        """Tell in which processes each was started, the poisonous first."""
        files = [Path(f"{name}.starts") for name in (*self.poison, *self.innocent)]
        return [[int(pid) for pid in file.read_text().split()] if file.exists() else [] for file in files]

    def let_work(self) -> None:
        for name in self.innocent:
            Path(f"{name}.open").touch()

    def fire(self, pid: int | None = None) -> None:
        """Let the poisonous ones kill the process of this number, or whichever runs them from now on."""
        (self.folder / ("fire" if pid is None else f"fire.{pid}")).touch()

    async def end(self) -> None:
        """Wait until all end: the innocent complete, the others are given up."""
        async with asyncio.timeout(500):
            await asyncio.gather(*self.works)
            ends = await asyncio.gather(*self.deaths, return_exceptions=True)
        assert {type(end) for end in ends} == {AttemptsExhaustedError}


async def dead_letters(host: Host) -> list[str]:
    """Return the ids of the calls that are dead."""
    inbox = Inbox()
    transport = host.bus.transport
    assert transport is not None
    subscription = await transport.subscribe(transport.topology.dead_queue, inbox, prefetch=1000)
    await transport.publish(transport.topology.dead_route, Message(b"fence", "dead"), deadline=in_time())
    await eventually(lambda: b"fence" in inbox.bodies)
    await subscription.close()
    return [delivery.message.correlation_id or "" for delivery in inbox.deliveries if delivery.message.body != b"fence"]


@pytest.mark.timeout(600)
async def test_twenty_calls_that_kill_their_worker_are_dead_after_three_starts_and_all_beside_them_complete(
    broker: Broker, namespace: str, tmp_path: Path
) -> None:
    keys = SealKeys.generate()
    keys.save(tmp_path / "keys")
    async with open_host("rabbitmq", namespace, broker.url, keys) as host:
        await host.stop_workers()
        calls = Calls(host, tmp_path, poison=20, innocent=40)
        async with supervised_worker(broker.url, namespace, tmp_path / "keys"):
            for starts in (1, 2):
                await eventually(lambda starts=starts: {len(pids) for pids in calls.starts()} == {starts}, within=60)  # type: ignore[misc]  # a loop's variable
                (pid,) = {pids[-1] for pids in calls.starts()}
                if starts == 2:
                    calls.let_work()
                    calls.fire()
                calls.fire(pid)
            await calls.end()
        assert [len(pids) for pids in calls.starts()[:20]] == [3] * 20
        assert {len(pids) for pids in calls.starts()[20:]} <= {2, 3}
        assert len(set(await dead_letters(host))) == 20


@pytest.mark.timeout(600)
async def test_calls_that_kill_whichever_of_several_workers_has_them_stop_none_of_the_others(
    broker: Broker, namespace: str, tmp_path: Path
) -> None:
    """Without any order: they die at once, in one worker while the other one runs what the first had lost."""
    keys = SealKeys.generate()
    keys.save(tmp_path / "keys")
    async with open_host("rabbitmq", namespace, broker.url, keys) as host, AsyncExitStack() as workers:
        await host.stop_workers()
        for _ in range(2):
            await workers.enter_async_context(supervised_worker(broker.url, namespace, tmp_path / "keys"))
        calls = Calls(host, tmp_path, poison=6, innocent=30)
        calls.fire()
        calls.let_work()
        await calls.end()
        await workers.aclose()
        assert all(1 <= len(pids) <= 3 for pids in calls.starts())
        assert len(set(await dead_letters(host))) == 6


async def test_a_broker_that_restarts_during_a_last_start_costs_it_nothing(own_broker: Broker, namespace: str) -> None:
    seen.reset()
    async with open_host("rabbitmq", namespace, own_broker.url) as host:
        last = asyncio.create_task(host.execute("hold", {"name": "last"}, ToolContext(timeout=120)))
        for starts in (1, 2):
            await eventually(lambda starts=starts: seen.runs["hold last"] == starts)  # type: ignore[misc]  # a loop's variable
            await host.kill_worker()
            await host.add_worker()
        await eventually(lambda: seen.runs["hold last"] == 3)
        await own_broker.persist()
        await own_broker.restart()
        await eventually(lambda: host.workers[0].transport.state.connected, within=60)
        await asyncio.sleep(1)
        seen.gate("last").set()
        assert (await last)["name"]
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        assert seen.runs["hold last"] == 3
