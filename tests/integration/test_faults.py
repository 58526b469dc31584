"""Faults on RabbitMQ: a worker, the broker, a connection or the broker's memory fails, and every call ends once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiormq
import pytest

from grundlag_bus import (
    DeadlineExceededError,
    Outcome,
    OutcomeUnknownError,
    RabbitTransport,
    SealKeys,
    ToolContext,
    Worker,
    gather_outcomes,
)
from grundlag_bus.adapters.bus import TransportBus
from tests.support.broker import Broker
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker, open_host
from tests.support.in_flight import all_confirmed, held, nothing_waits, told, transport_of
from tests.support.proxy import proxy_to
from tests.support.worker_process import worker_process


@pytest.fixture(autouse=True)
async def _fresh() -> AsyncIterator[None]:
    seen.reset()
    yield
    seen.reset()
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"


# --- workers ----------------------------------------------------------------------------------------------------------


async def test_a_worker_whose_queue_was_lost_announces_its_provider_again(broker: Broker, namespace: str) -> None:
    """A broker that comes back without its data has lost the manifests with the queues."""
    async with open_host("rabbitmq", namespace, broker.url) as host:
        topology = transport_of(host).topology
        connection = await aiormq.connect(broker.url)
        channel = await connection.channel()
        await channel.queue_delete(topology.manifests.name)
        await channel.queue_delete(topology.call_queue("contract", "main").name)
        await connection.close()
        async with asyncio.timeout(20):
            while "contractAdd" not in await host.bus.to_tools():  # noqa: ASYNC110  it is asked of the broker
                await asyncio.sleep(0.05)
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_the_calls_of_a_killed_worker_complete_elsewhere(broker: Broker, namespace: str, tmp_path: Path) -> None:
    keys = SealKeys.generate()
    keys.save(tmp_path / "keys")
    files = [str(tmp_path / f"call{n}") for n in range(8)]

    def started() -> list[list[int]]:
        starts = [Path(f"{name}.starts") for name in files]
        return [[int(pid) for pid in each.read_text().split()] if each.exists() else [] for each in starts]

    async with (
        worker_process(broker.url, namespace, tmp_path / "keys") as first,
        worker_process(broker.url, namespace, tmp_path / "keys") as second,
        open_host("rabbitmq", namespace, broker.url, keys, serve=False) as host,
    ):
        calls = [asyncio.create_task(host.execute("holdByFile", {"name": name})) for name in files]
        await eventually(lambda: all(started()))
        orphans = [n for n, pids in enumerate(started()) if pids == [first.pid]]
        assert 0 < len(orphans) < len(files)
        await first.kill()
        await eventually(lambda: all(started()[n] == [first.pid, second.pid] for n in orphans))
        for name in files:
            Path(f"{name}.open").touch()  # noqa: ASYNC240  a few empty files
        assert [result["length"] for result in await asyncio.gather(*calls)] == [second.pid] * len(files)
        assert started() == [[first.pid, second.pid] if n in orphans else [second.pid] for n in range(len(files))]
        assert host.bus_caller.late_replies == 0
        assert nothing_waits(host)
        assert await second.stop() == 0


async def test_the_answer_may_reach_another_process_than_the_question(
    broker: Broker, namespace: str, tmp_path: Path
) -> None:
    keys = SealKeys.generate()
    keys.save(tmp_path / "keys")
    async with open_host("rabbitmq", namespace, broker.url, keys, serve=False) as host:
        async with worker_process(broker.url, namespace, tmp_path / "keys") as first:
            host.tools = await host.bus.to_tools()
            interrupt = await host.interrupt("ask", {"id": "e1"}, ToolContext(user_id="ada"))
            assert await first.stop() == 0
        async with worker_process(broker.url, namespace, tmp_path / "keys"):
            decided = await host.tool("ask").resume(interrupt, {"approved": True}, ToolContext(user_id="ada"))
        assert (decided["approved"], decided["by"], decided["state"]) == (True, "ada", {"version": 7})


async def test_a_worker_whose_connection_is_cut_in_mid_call_runs_it_once_and_replies_once(
    broker: Broker, namespace: str
) -> None:
    async with (
        proxy_to(broker.url) as proxy,
        open_host("rabbitmq", namespace, broker.url) as host,
    ):
        await host.stop_workers()
        await host.add_worker(address=proxy.url)
        calls = await held(host, "adopted", 20)
        connections = proxy.accepted
        await proxy.cut()
        await eventually(lambda: proxy.accepted >= connections + 2)
        # What came again is behind this call in no queue: when it has run, all was delivered again.
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        seen.gate("adopted").set()
        assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
        await eventually(lambda: not host.workers[0].worker.in_flight)
        await host.stop_workers()
        await host.add_worker()
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        assert seen.runs["hold adopted"] == 20  # what came again was settled with the call
        assert host.bus_caller.late_replies == 0
        assert nothing_waits(host)


async def test_a_reply_that_was_ready_while_the_worker_was_cut_off_arrives(broker: Broker, namespace: str) -> None:
    async with (
        proxy_to(broker.url) as proxy,
        open_host("rabbitmq", namespace, broker.url) as host,
    ):
        await host.stop_workers()
        running = await host.add_worker(address=proxy.url)
        calls = await held(host, "cut off", 20)
        await proxy.refuse()
        await proxy.cut()
        seen.gate("cut off").set()
        await asyncio.wait(calls, timeout=0.1)
        assert not any(call.done() for call in calls)
        await proxy.accept()
        assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
        await eventually(lambda: not running.worker.in_flight)


async def test_an_action_that_blocks_the_loop_costs_its_neighbours_a_redelivery_and_nothing_else(
    broker: Broker, namespace: str
) -> None:
    """For so long that the broker drops the worker's connection, as often as a call may lose its worker."""
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await host.stop_workers()
        transport = RabbitTransport(broker.url, namespace=namespace, heartbeat=1)
        host.workers.append(RunningWorker(Worker(transport, make_registry(host.keys)), transport))
        await host.workers[0].started()
        calls = await held(host, "neighbour", 5)
        for _ in range(3):
            connections = [link.connection for link in transport._links]
            await host.execute("block", {"seconds": 4})
            await eventually(lambda: all(link.connection not in (None, *connections) for link in transport._links))  # noqa: B023  awaited here
            assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}  # behind what came again
        seen.gate("neighbour").set()
        await asyncio.gather(*calls)
        assert seen.runs["hold neighbour"] == 5


async def test_heartbeats_last_until_a_draining_worker_has_finished(broker: Broker, namespace: str) -> None:
    """The broker drops a connection after two missing ones, and another worker would run its calls again."""
    async with open_host("rabbitmq", namespace, broker.url) as host:
        await host.stop_workers()
        transport = RabbitTransport(broker.url, namespace=namespace, heartbeat=1)
        draining = RunningWorker(Worker(transport, make_registry(host.keys), grace=60), transport)
        host.workers.append(draining)
        await draining.started()
        calls = await held(host, "drained", 5)
        connections = [link.connection for link in transport._links]
        draining.serving.cancel()
        await host.add_worker()
        await asyncio.sleep(5)
        assert [link.connection for link in transport._links] == connections
        seen.gate("drained").set()
        await asyncio.gather(*calls)
        await asyncio.wait({draining.serving})
        assert seen.runs["hold drained"] == 5


# --- the caller's connection ------------------------------------------------------------------------------------------


async def test_replies_arrive_after_the_callers_connection_was_cut(broker: Broker, namespace: str) -> None:
    async with (
        proxy_to(broker.url) as proxy,
        open_host("rabbitmq", namespace, proxy.url) as host,
    ):
        await host.stop_workers()
        await host.add_worker(address=broker.url)
        calls = await held(host, "cut", 50)
        await proxy.refuse()
        await proxy.cut()
        seen.gate("cut").set()
        await eventually(lambda: not host.workers[0].worker.in_flight)  # the replies are in the mailbox
        assert not any(call.done() for call in calls)
        await proxy.accept()
        assert len({result["name"] for result in await asyncio.gather(*calls)}) == 50
        assert seen.runs["hold cut"] == 50
        assert host.bus_caller.late_replies == 0
        assert nothing_waits(host)


async def test_calls_made_while_there_is_no_connection_wait_for_it_or_for_their_deadline(
    broker: Broker, namespace: str
) -> None:
    async with (
        proxy_to(broker.url) as proxy,
        open_host("rabbitmq", namespace, proxy.url) as host,
    ):
        await host.stop_workers()
        await host.add_worker(address=broker.url)
        await proxy.refuse()
        await proxy.cut()
        publisher = transport_of(host)._publisher
        assert publisher is not None
        await eventually(lambda: publisher._wire is None)  # what is written before it knows may arrive, or not
        patient = [asyncio.create_task(host.execute("add", {"a": n, "b": 0})) for n in range(20)]
        with pytest.raises(DeadlineExceededError) as raised:
            await host.execute("hold", {"name": "hasty"}, ToolContext(timeout=0.2))
        assert raised.value.details["published"] is not True
        await proxy.accept()
        assert [result["sum"] for result in await asyncio.gather(*patient)] == list(range(20))
        assert not seen.runs["hold hasty"]
        assert nothing_waits(host)


async def test_calls_whose_mailbox_was_lost_are_sent_again_where_that_is_harmless(
    broker: Broker, namespace: str
) -> None:
    async with (
        proxy_to(broker.url) as proxy,
        open_host("rabbitmq", namespace, proxy.url) as host,
    ):
        await host.stop_workers()
        add = host.tool("add")
        assert add.idempotent
        harmless = asyncio.create_task(add.execute({"a": 1, "b": 2}))
        unsure = asyncio.create_task(host.execute("echo"))
        mailbox = transport_of(host).topology.mailbox(host.bus_caller._mailbox)
        await eventually(lambda: all_confirmed(host, 2))
        await proxy.refuse()
        await proxy.cut()
        connection = await aiormq.connect(broker.url)
        channel = await connection.channel()
        await channel.queue_delete(mailbox.name)
        await connection.close()
        await proxy.accept()
        with pytest.raises(OutcomeUnknownError) as raised:
            await unsure
        assert raised.value.details == {"published": True}
        await host.add_worker(address=broker.url)
        assert await harmless == {"sum": 3}
        await eventually(lambda: nothing_waits(host))


# --- the broker -------------------------------------------------------------------------------------------------------

QUEUE_IS_KEPT = 3.0
"""Seconds. A quorum queue that was declared less than about one before its node is killed is empty afterwards: RabbitMQ
confirms what is published to it, and writes down that there is such a queue only every half second."""


async def test_each_of_200_calls_in_flight_ends_once_when_the_broker_is_killed_and_restarted(
    own_broker: Broker, namespace: str
) -> None:
    async with open_host("rabbitmq", namespace, own_broker.url) as host:
        await host.stop_workers()
        await host.add_worker(concurrency=100)
        await asyncio.sleep(QUEUE_IS_KEPT)
        running = await held(host, "killed", 100)
        queued = [asyncio.create_task(host.execute("add", {"a": n, "b": 0})) for n in range(50)]
        await eventually(lambda: all_confirmed(host, 150))
        unsure = [asyncio.create_task(host.execute("echo", {"value": n})) for n in range(50)]
        await asyncio.sleep(0)  # written, not confirmed
        assert host.bus_caller.in_flight == 200
        await own_broker.restart()
        # A call that ends before it came again would run again: without a ledger nobody remembers it.
        runs = host.workers[0].worker._serving.runs
        await eventually(lambda: [len(run._deliveries) for run in runs.values()] == [2] * 100)
        seen.gate("killed").set()
        assert told(await gather_outcomes(*running, *queued)) == {"completed": 150}
        ends = told(await gather_outcomes(*unsure))
        assert ends["completed"] + ends["OutcomeUnknownError"] == 50
        assert seen.runs["hold killed"] == 100
        await eventually(lambda: nothing_waits(host))
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
        await eventually(lambda: not host.workers[0].worker.in_flight)


async def test_a_stream_of_calls_over_restarts_of_the_broker_loses_none(own_broker: Broker, namespace: str) -> None:
    async with open_host("rabbitmq", namespace, own_broker.url) as host:
        await asyncio.sleep(QUEUE_IS_KEPT)
        ended: list[Outcome] = []
        stopping = asyncio.Event()

        async def steady() -> None:
            while not stopping.is_set():
                ended.extend(await gather_outcomes(host.execute("add", {"a": 1, "b": 1})))

        streams = [asyncio.create_task(steady()) for _ in range(16)]

        async def some_more_end() -> None:
            wanted = len(ended) + 50
            await eventually(lambda: len(ended) > wanted, within=30)

        for _ in range(2):
            await some_more_end()
            await own_broker.restart()
        await some_more_end()
        stopping.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*streams)
        # `add` is idempotent: an unsure publish is sent again.
        assert told(ended) == {"completed": len(ended)}
        await eventually(lambda: nothing_waits(host))


# --- the broker's memory ----------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


async def test_a_memory_alarm_bounds_the_callers_memory_and_ends_every_call(own_broker: Broker, namespace: str) -> None:
    budget, size, count = 2 * 1024 * 1024, 256 * 1024, 64
    async with open_host("rabbitmq", namespace, own_broker.url) as host:
        transport = RabbitTransport(own_broker.url, namespace=namespace, byte_budget=budget)
        async with TransportBus(transport) as bus:
            tools = await bus.to_tools()
            echo = tools["contractEcho"]
            text = "x" * size
            await echo.execute({"value": text})
            await own_broker.raise_memory_alarm()
            before = resident_bytes()
            patient = [asyncio.create_task(echo.execute({"value": text})) for _ in range(count)]
            hasty = [asyncio.create_task(echo.execute({"value": text}, ToolContext(timeout=0.5))) for _ in range(count)]
            publisher = transport._publisher
            assert publisher is not None
            end = time.monotonic() + 2
            most = 0
            while time.monotonic() < end:
                most = max(most, publisher.unconfirmed_bytes)
                await asyncio.sleep(0.01)
            assert most <= budget
            # What callers wait with is theirs; beyond that nothing piles up.
            assert resident_bytes() - before < 2 * count * size * 2 + budget + 16 * 1024 * 1024
            assert told(await gather_outcomes(*hasty)) == {"DeadlineExceededError": count}
            assert not any(call.done() for call in patient)
            await own_broker.lift_memory_alarm()
            assert told(await gather_outcomes(*patient)) == {"completed": count}
            assert bus._bus_caller.in_flight == 0
            await eventually(lambda: publisher.unconfirmed_bytes == publisher.outstanding == 0)
            assert seen.runs["echo"] <= 1 + count + budget // size  # what was refused never ran
        assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
