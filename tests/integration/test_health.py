"""What a worker's port tells: counts after calls of each outcome, and the truth while broker or loop are in trouble."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel
from structlog.testing import capture_logs

from grundlag_bus import (
    BusCaller,
    Call,
    PrometheusHook,
    Provider,
    ProviderRegistry,
    RabbitTransport,
    Reply,
    Request,
    Worker,
)
from grundlag_bus.telemetry.exposition import expose
from grundlag_bus.telemetry.http import HealthServer
from tests.support.broker import Broker
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.scrape import Scrape

OUTCOMES = "tests.support.outcomes:registry"


def get(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


async def report(port: int, path: str) -> tuple[bool, list[str]]:
    code, body = await asyncio.to_thread(get, port, path)
    told = json.loads(body)
    assert (code == 200) is told["ok"]
    return told["ok"], told["reasons"]


async def scrape(port: int) -> Scrape:
    _, body = await asyncio.to_thread(get, port, "/metrics")
    return Scrape(body)


async def tells(port: int, path: str, reasons: list[str], within: float = 30.0) -> None:
    """Wait until exactly these reasons are given; none of them means that all is well."""
    told: list[str] | None = None
    end = time.monotonic() + within
    while told != reasons:
        assert time.monotonic() < end, f"{path} still says {told}, not {reasons}"
        _, told = await report(port, path)
        await asyncio.sleep(0.05)


# --- a real worker process --------------------------------------------------------------------------------------------


async def test_a_scrape_after_calls_of_each_outcome_shows_their_counts_also_when_their_process_was_killed(
    tmp_path: Path, amqp_url: str, namespace: str
) -> None:
    cli = CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace)
    keys = tmp_path / "keys"
    assert cli.run("keys", "new", str(keys)).code == 0
    line = ("worker", OUTCOMES, "--keys", str(keys), "--processes", "2", "--health-port", "0")
    with cli.start(*line, "--health-host", "127.0.0.1") as started:
        port = (await asyncio.to_thread(started.wait_for, "health"))["port"]
        for _ in range(2):
            await asyncio.to_thread(started.wait_for, "serving")
        assert await report(port, "/live") == (True, [])
        await tells(port, "/ready", [])

        pid = 0
        async with _caller(amqp_url, namespace) as caller:
            for action in ("complete", "complete", "ask", "refuse", "exhaust", "later", "missing"):
                reply = await _call(caller, "ways", action)
                if action == "complete":
                    pid = reply.response.to_json()["result"]["pid"]

        await asyncio.sleep(1)  # what the last moment adds is lost with a process that is killed
        await _shows_each_outcome(port)
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(started.wait_for, "process_ended")
        await _shows_each_outcome(port)
        await asyncio.to_thread(started.wait_for, "serving")
        async with _caller(amqp_url, namespace) as caller:
            await _call(caller, "ways", "complete")
        await _completes(port, 3)


async def test_a_worker_without_others_beside_it_tells_of_itself(tmp_path: Path, amqp_url: str, namespace: str) -> None:
    cli = CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace)
    assert cli.run("keys", "new", "keys").code == 0
    with cli.start("worker", OUTCOMES, "--keys", "keys", "--health-port", "0") as started:
        port = (await asyncio.to_thread(started.wait_for, "health"))["port"]
        await asyncio.to_thread(started.wait_for, "serving")
        async with _caller(amqp_url, namespace) as caller:
            reply = await _call(caller, "ways", "complete")
        assert reply.response.to_json()["result"]["pid"] == started.process.pid
        assert await report(port, "/live") == (True, [])
        assert await report(port, "/ready") == (True, [])
        await _completes(port, 1)
        assert (await scrape(port)).value("grundlag_workers_serving") == 1


async def _completes(port: int, calls: int) -> None:
    """Wait until so many calls are shown: what was added last shows when the loop turns the next time."""
    done = {"provider": "ways", "action": "complete", "outcome": "completed", "code": ""}
    async with asyncio.timeout(20):
        while (await scrape(port)).value("grundlag_calls_total", **done) != calls:  # noqa: ASYNC110  of another process
            await asyncio.sleep(0.05)


async def _shows_each_outcome(port: int) -> None:
    counts = await scrape(port)

    def ended(action: str, outcome: str, code: str = "") -> float:
        return counts.value("grundlag_calls_total", provider="ways", action=action, outcome=outcome, code=code)

    def counted(name: str, action: str, **labels: str) -> float:
        return counts.value(f"grundlag_{name}", provider="ways", action=action, **labels)

    assert ended("complete", "completed") == 2
    assert ended("ask", "interrupted") == 1
    assert ended("refuse", "failed", "too_late") == 1
    assert ended("exhaust", "failed", "attempts_exhausted") == 1
    assert ended("later", "completed") == 1
    assert ended("other", "failed", "action_unknown") == 1
    assert counted("call_starts_total", "exhaust") == 3
    assert counted("calls_sent_on_total", "exhaust", why="retry") == 2
    assert counted("calls_sent_on_total", "later", why="defer") == 1
    assert counted("dead_letters_total", "exhaust", code="attempts_exhausted") == 1
    assert counted("call_seconds_count", "complete") == 2
    assert counted("call_run_seconds_count", "later") == 1
    assert (
        counts.value("grundlag_call_queue_seconds_count", provider="ways", lane="main") == 6
    )  # the missing one never starts
    assert counts.value("grundlag_loop_lag_seconds_count") > 0


# --- trouble ----------------------------------------------------------------------------------------------------------


class Nothing(BaseModel):
    pass


class Seconds(BaseModel):
    seconds: float


slow = Provider("slow", name="Slow")


gate = threading.Event()


@slow.action("hold", name="Hold")
def hold(_: Nothing) -> None:
    """Waits at the gate, in a thread."""
    assert gate.wait(60)


@slow.action("block", name="Block")
async def block(given: Seconds) -> None:
    """Blocks the event loop."""
    time.sleep(given.seconds)  # noqa: ASYNC251  what is tested


@asynccontextmanager
async def _caller(url: str, namespace: str) -> AsyncIterator[BusCaller]:
    transport = RabbitTransport(url, namespace=namespace)
    caller = BusCaller(transport)
    try:
        await caller.open()
        yield caller
        await caller.close()
    finally:
        await transport.close()


async def _call(caller: BusCaller, provider: str, action: str, **given: float) -> Reply:
    now = time.time()
    call_id = f"{action}-{time.monotonic_ns()}"
    return await caller.call(Call(call_id, provider, action, Request(given), now + 60, sent_at=now))


class Watched:
    """A worker in this process, with its port, and a caller of it."""

    def __init__(self, worker: Worker, port: int, caller: BusCaller, running: asyncio.Task[None]) -> None:
        self.worker = worker
        self.port = port
        self.caller = caller
        self.running = running


@asynccontextmanager
async def watched(url: str, namespace: str) -> AsyncIterator[Watched]:
    registry = ProviderRegistry([slow])
    hook = PrometheusHook(registry)
    transport = RabbitTransport(url, namespace=namespace)
    worker = Worker(transport, registry, hook=hook)
    server = HealthServer(
        0,
        host="127.0.0.1",
        live=lambda: worker.live(within=1.0),
        ready=worker.ready,
        metrics=lambda: expose(hook.collectors, [worker.status()]),
    )
    server.start()
    running = asyncio.create_task(worker.run())
    try:
        await worker.started.wait()
        async with _caller(url, namespace) as caller:
            yield Watched(worker, server.port, caller, running)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await transport.close()
        server.close()


async def test_readiness_is_false_while_the_broker_is_away_and_true_again(own_broker: Broker, namespace: str) -> None:
    async with watched(own_broker.url, namespace) as served:
        await tells(served.port, "/ready", [])
        await own_broker.kill()
        await tells(served.port, "/ready", ["not connected to the broker"])
        assert (await scrape(served.port)).value("grundlag_workers_connected") == 0
        await tells(served.port, "/live", [])  # another process would not be connected either
        await own_broker.start()
        await tells(served.port, "/ready", [], within=60)
        counts = await scrape(served.port)
        assert counts.value("grundlag_consumers_actual") == counts.value("grundlag_consumers_wanted") > 0
        gate.set()
        reply = await _call(served.caller, "slow", "hold")
        assert reply.response.to_json()["status"] == "completed"


async def test_readiness_is_false_while_the_broker_has_an_alarm_and_true_again(
    own_broker: Broker, namespace: str
) -> None:
    async with watched(own_broker.url, namespace) as served:
        gate.clear()
        calling = asyncio.create_task(_call(served.caller, "slow", "hold"))
        await eventually(lambda: served.worker.in_flight == 1)
        await own_broker.raise_memory_alarm()
        gate.set()
        # The broker says so at the first publish that it holds back: the reply.
        await tells(served.port, "/ready", ["publishing is blocked by the broker's memory or disk alarm"])
        assert (await scrape(served.port)).value("grundlag_workers_blocked") == 1
        await own_broker.lift_memory_alarm()
        await tells(served.port, "/ready", [])
        assert (await calling).response.to_json()["status"] == "completed"


async def test_readiness_is_false_from_the_moment_it_drains(amqp_url: str, namespace: str) -> None:
    async with watched(amqp_url, namespace) as served:
        gate.clear()
        calling = asyncio.create_task(_call(served.caller, "slow", "hold"))
        await eventually(lambda: served.worker.in_flight == 1)
        served.running.cancel()
        await tells(served.port, "/ready", ["draining"])
        assert (await scrape(served.port)).value("grundlag_calls_in_flight") == 1
        await tells(served.port, "/live", [])
        gate.set()
        assert (await calling).response.to_json()["status"] == "completed"


async def test_a_blocked_loop_is_not_live_and_its_culprit_is_named_in_log_and_metric(
    amqp_url: str, namespace: str
) -> None:
    with capture_logs() as logs:
        async with watched(amqp_url, namespace) as served:
            asking = asyncio.get_running_loop().run_in_executor(None, _ask_until_not_live, served.port)
            reply = await _call(served.caller, "slow", "block", seconds=4)
            told = json.loads(await asking)
            await tells(served.port, "/live", [])

            assert reply.response.to_json()["status"] == "completed"
            assert told["reasons"][0].startswith("the event loop has not turned for")
            counts = await scrape(served.port)
            assert counts.value("grundlag_loop_blocks_total", culprit="slow.block") == 1
            assert 2 < counts.value("grundlag_loop_blocked_seconds_total", culprit="slow.block") < 60

    blocked = [line for line in logs if line["event"] == "loop_blocked" and line.get("action") == "slow.block"]
    assert len(blocked) == 1
    assert blocked[0]["place"].startswith(f"{__file__}:")
    assert blocked[0]["place"].endswith(" block")


def _ask_until_not_live(port: int) -> bytes:
    end = time.monotonic() + 60
    while True:
        code, body = get(port, "/live")
        if code == 503:
            return body
        assert time.monotonic() < end
        time.sleep(0.05)
