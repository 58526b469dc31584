"""Several worker processes under one: who ends when, what is started again, and what the health of the whole says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import Tool, ToolContext, connect
from tests.support.command_line import CommandLine, Started
from tests.support.eventually import eventually

LANES = "tests.support.lanes:registry"


@pytest.fixture
def cli(tmp_path: Path, amqp_url: str, namespace: str) -> CommandLine:
    return CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace)


class Fleet:
    """A supervisor whose processes all serve, and tools that call them."""

    def __init__(self, started: Started, tools: dict[str, Tool], port: int) -> None:
        self.started = started
        self.tools = tools
        self.port = port

    @property
    def pid(self) -> int:
        return self.started.process.pid

    @property
    def children(self) -> list[int]:
        return children_of(self.pid)

    async def wait_for(self, event: str) -> dict[str, Any]:
        return await asyncio.to_thread(self.started.wait_for, event)

    async def end(self, within: float = 30.0) -> int:
        return (await asyncio.to_thread(self.started.end, within)).code

    async def call(self, action: str, /, **given: Any) -> Any:
        return await self.tools[action].execute(given, ToolContext(timeout=60.0))

    async def page(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._page, path)

    async def tells(self, metric: str) -> None:
        """Wait until a line stands among the metrics: processes report once a second."""
        async with asyncio.timeout(20):
            while metric not in (await self.page("/metrics"))[1].splitlines():  # noqa: ASYNC110  of other processes
                await asyncio.sleep(0.1)

    async def busy(self) -> None:
        """Wait until a process reports a call."""
        await self.tells("grundlag_calls_in_flight 1.0")

    async def health(self, path: str) -> tuple[bool, list[str]]:
        code, body = await self.page(path)
        told = json.loads(body)
        assert (code == 200) is told["ok"]
        return told["ok"], told["reasons"]

    def _page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@asynccontextmanager
async def fleet(cli: CommandLine, *arguments: str, processes: int = 2) -> AsyncIterator[Fleet]:
    """Start processes, and give them when all of them serve."""
    line = ("worker", LANES, "--processes", str(processes), "--health-port", "0", *arguments)
    async with AsyncExitStack() as opened:
        started = opened.enter_context(cli.start(*line))
        port = (await asyncio.to_thread(started.wait_for, "health"))["port"]
        for _ in range(processes):
            await asyncio.to_thread(started.wait_for, "serving")
        address, namespace = (cli.environment[f"GRUNDLAG_{name}"] for name in ("URL", "NAMESPACE"))
        bus = await opened.enter_async_context(connect(address, namespace=namespace))
        yield Fleet(started, dict(await bus.to_tools()), port)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def lines(file: Path) -> Counter[str]:
    return Counter(file.read_text().split() if file.exists() else ())


# --- serving ----------------------------------------------------------------------------------------------------------


async def test_every_process_serves_and_one_port_tells_of_all(cli: CommandLine) -> None:
    async with fleet(cli, processes=3) as served:
        assert len(served.children) == 3
        answers = await asyncio.gather(*(served.call("swiftWho") for _ in range(60)))
        assert {answer["pid"] for answer in answers} == set(served.children)
        assert await served.health("/live") == (True, [])
        assert await served.health("/ready") == (True, [])
        await served.tells("grundlag_workers_serving 3.0")


async def test_what_a_killed_process_was_at_is_done_by_others_and_another_one_takes_its_place(
    cli: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    async with fleet(cli) as served:
        before = served.children
        calls = [
            asyncio.create_task(served.call("swiftWrite", file=str(file), line=str(n), seconds=0.5)) for n in range(200)
        ]
        await eventually(lambda: len(lines(file)) > 20)
        os.kill(before[0], signal.SIGKILL)
        ended = await served.wait_for("process_ended")
        assert (ended["how"], ended["again_in"], ended["pid"]) == ("by SIGKILL", 1.0, before[0])
        assert f"-{before[0]}-" in ended["worker"]
        assert len(ended["call_ids"]) <= 20  # as it reported last, once a second
        await served.tells("grundlag_process_ends_total 1.0")
        await asyncio.gather(*calls)
        assert lines(file).keys() == {str(n) for n in range(200)}
        await served.wait_for("serving")
        assert len(served.children) == 2
        assert before[1] in served.children
        assert before[0] not in served.children


async def test_while_every_loop_is_blocked_nothing_is_ready_and_each_process_is_named(
    cli: CommandLine, tmp_path: Path
) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    async with fleet(cli, "--concurrency", "1") as served:
        calls = [
            asyncio.create_task(served.call("swiftBlock", file=str(file), line="1", seconds=40.0)) for file in files
        ]
        children = served.children
        await eventually(lambda: all(file.exists() for file in files))
        for metric in ("workers_serving", "workers_connected", "consumers_actual"):
            await served.tells(f"grundlag_{metric} 0.0")
        ready, reasons = await served.health("/ready")
        assert not ready
        assert [f"(pid {pid})" in reason for pid, reason in zip(children, reasons, strict=True)] == [True, True]
        assert all("has not been heard of for" in reason for reason in reasons)
        for call, child in zip(calls, children, strict=True):
            call.cancel()
            os.kill(child, signal.SIGKILL)


# --- starting ---------------------------------------------------------------------------------------------------------


def test_a_wrong_line_is_told_once_and_ends_the_whole(cli: CommandLine) -> None:
    ended = cli.run("worker", LANES, "--processes", "3", "--lane", "slow")
    assert ended.code == 2
    assert sum("no lane 'slow'" in line for line in ended.err.splitlines()) == 1


def test_a_bus_that_cannot_be_reached_from_the_beginning_ends_the_whole(cli: CommandLine) -> None:
    ended = cli.run("worker", LANES, "--processes", "2", "--url", "amqp://guest:s3cret@127.0.0.1:1/")
    assert ended.code == 4
    assert "s3cret" not in ended.err


def test_a_health_port_that_is_taken_is_usage(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = cli.run("worker", LANES, "--processes", "2", "--health-port", str(port))
    assert ended.code == 2
    assert f"Port {port}" in ended.sentence


def test_no_process_shows_the_password_among_its_arguments(cli: CommandLine) -> None:
    with cli.start("worker", LANES, "--processes", "2", "--url", cli.environment["GRUNDLAG_URL"]) as started:
        for _ in range(2):  # one that has not begun yet shows its parent's
            started.wait_for("serving")
        for child in children_of(started.process.pid):
            assert "amqp" not in Path(f"/proc/{child}/cmdline").read_text()


# --- ending -----------------------------------------------------------------------------------------------------------


async def test_a_signal_under_load_loses_nothing_and_repeats_nothing(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    async with fleet(cli, "--concurrency", "8") as served:
        calls = [
            asyncio.create_task(served.call("swiftWrite", file=str(file), line=str(n), seconds=0.3)) for n in range(150)
        ]
        await eventually(lambda: len(lines(file)) > 20)
        served.started.process.terminate()
        assert (await served.wait_for("draining"))["signal"] == "SIGTERM"
        with cli.start("worker", LANES):
            await asyncio.gather(*calls)
        assert await served.end() == 0
    assert lines(file) == Counter(str(n) for n in range(150))


async def test_a_second_signal_ends_every_process_at_once(cli: CommandLine, tmp_path: Path) -> None:
    async with fleet(cli) as served:
        children = served.children
        holding = asyncio.create_task(served.call("swiftWrite", file=str(tmp_path / "f"), line="1", seconds=40.0))
        await served.busy()
        served.started.process.terminate()
        assert (await served.wait_for("draining"))["calls"] == 1
        served.started.process.terminate()
        assert await served.end(within=20) == 128 + signal.SIGTERM
        assert not any(map(is_there, children))
        holding.cancel()


async def test_a_signal_to_every_process_of_a_group_drains_once(cli: CommandLine, tmp_path: Path) -> None:
    async with fleet(cli) as served:
        holding = asyncio.create_task(served.call("swiftWrite", file=str(tmp_path / "f"), line="1", seconds=2.0))
        await served.busy()
        for pid in (served.pid, *served.children):
            os.kill(pid, signal.SIGTERM)
        assert await served.end() == 0
        await holding


async def test_processes_end_when_their_supervisor_is_killed(cli: CommandLine, tmp_path: Path) -> None:
    async with fleet(cli) as served:
        children = served.children
        holding = asyncio.create_task(served.call("swiftWrite", file=str(tmp_path / "f"), line="1", seconds=2.0))
        await served.busy()
        served.started.process.kill()
        try:
            await holding  # they drain
            await eventually(lambda: not any(map(is_there, children)))
        finally:
            for child in filter(is_there, children):
                os.kill(child, signal.SIGKILL)


async def test_a_process_whose_loop_is_blocked_outlives_its_supervisor_by_the_grace_time(
    cli: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    async with fleet(cli, "--grace", "1") as served:
        children = served.children
        blocked = asyncio.create_task(served.call("swiftBlock", file=str(file), line="1", seconds=600.0))
        await eventually(file.exists)
        served.started.process.kill()
        try:
            await eventually(lambda: not any(map(is_there, children)), within=60)
        finally:
            for child in filter(is_there, children):
                os.kill(child, signal.SIGKILL)
            blocked.cancel()


async def test_a_process_that_is_told_to_end_alone_drains_and_is_replaced(cli: CommandLine, tmp_path: Path) -> None:
    async with fleet(cli) as served:
        holding = asyncio.create_task(served.call("swiftWrite", file=str(tmp_path / "f"), line="1", seconds=2.0))
        await served.busy()
        for pid in served.children:
            os.kill(pid, signal.SIGTERM)
        assert (await served.wait_for("process_ended"))["how"] == "with exit code 0"
        await holding
        await served.wait_for("serving")


def test_ctrl_c_at_a_terminal_drains_once(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    given = json.dumps({"file": str(file), "line": "1", "seconds": 2.0})
    with cli.on_terminal("worker", LANES, "--processes", "2") as terminal:
        terminal.expect("serving")
        terminal.expect("serving")
        with cli.start("call", "swiftWrite", given, "--json") as call:
            terminal.expect("write_started")
            terminal.type("\x03")
            assert terminal.end().code == 0
            assert call.end().code == 0
    assert "aborting" not in terminal.shown
