"""A supervisor in this process that is more impatient than a command line's, and real processes under it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog.testing

from grundlag_bus import ToolContext, connect
from grundlag_bus.cli.worker.options import WorkerOptions
from grundlag_bus.cli.worker.pace import Pace
from grundlag_bus.cli.worker.supervisor import Supervisor
from grundlag_bus.errors import CallError
from tests.support.eventually import eventually

FRAIL = """
import os
from pathlib import Path
from tests.support.lanes import registry

if not Path("alive").exists():
    os._exit(7)
"""
"""A registry that cannot be loaded unless a file is there."""


@asynccontextmanager
async def supervised(options: WorkerOptions, pace: Pace) -> AsyncIterator[Supervisor]:
    gone: list[int] = []
    supervisor = Supervisor(options, environment={}, gone=gone.append, pace=pace)
    running = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        supervisor._receive(signal.SIGTERM)
        assert await running == 0
        assert gone


@pytest.fixture
def options(amqp_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerOptions:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frail.py").write_text(FRAIL)
    (tmp_path / "alive").touch()
    return WorkerOptions(
        spec="frail:registry",
        url=amqp_url,
        namespace=namespace,
        providers=(),
        lanes=(),
        concurrency=(),
        keys_file=None,
        grace=5.0,
        level="warning",
        processes=2,
    )


async def serve(supervisor: Supervisor, *, processes: int) -> None:
    await eventually(lambda: sum(status.started for status in supervisor.statuses()) == processes, within=60)


async def test_processes_that_cannot_live_fail_health_and_are_tried_again_more_and_more_rarely(
    options: WorkerOptions, tmp_path: Path
) -> None:
    pace = Pace(look_every=0.1, first_pause=0.05, longest_pause=0.4, failing_at=5)
    with structlog.testing.capture_logs() as logs:
        async with supervised(options, pace) as supervisor:
            await serve(supervisor, processes=2)
            (tmp_path / "alive").unlink()
            supervisor._places[0].kill()
            await eventually(lambda: not supervisor.ready().ok, within=60)
            [told] = supervisor.ready().reasons
            assert told.startswith("process 1")
            assert told.endswith("times in a row, at last with exit code 7")
            assert supervisor.live().ok  # another start of the whole would not help
            (tmp_path / "alive").touch()
            # Only now: on a busy machine a process that cannot live may need as long to find that out.
            supervisor._places[0]._pace = replace(pace, settled_after=3.0)
            await eventually(lambda: supervisor.ready().ok, within=60)
    pauses = [entry["again_in"] for entry in logs if entry["event"] == "process_ended"]
    assert pauses[:5] == [0.05, 0.1, 0.2, 0.4, 0.4]


async def test_a_process_whose_loop_is_blocked_fails_liveness_and_is_replaced(
    options: WorkerOptions, tmp_path: Path, amqp_url: str, namespace: str
) -> None:
    file = tmp_path / "blocked"
    pace = Pace(look_every=0.1, first_pause=0.05, silent_after=4.0, replaced_after=6.0)
    async with supervised(options, pace) as supervisor, connect(amqp_url, namespace=namespace) as bus:
        await serve(supervisor, processes=2)
        before = {status.name for status in supervisor.statuses()}
        tools = await bus.to_tools()
        given = {"file": str(file), "line": "blocked", "seconds": 600.0}
        with pytest.raises(CallError):
            await tools["swiftBlock"].execute(given, ToolContext(timeout=2.0))
        await eventually(lambda: not supervisor.live().ok, within=60)
        [told] = supervisor.live().reasons
        assert "has not been heard of for" in told
        await eventually(lambda: supervisor.live().ok, within=60)
        await serve(supervisor, processes=2)
        assert len({status.name for status in supervisor.statuses()} & before) == 1
