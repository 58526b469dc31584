"""Cancelling a script reaches its calls and its engine, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from grundlag_bus import EnginePool, Sandbox, ScriptCancelledError, ToolContext
from tests.support.contract_registry import seen
from tests.support.engines import engines
from tests.support.eventually import eventually
from tests.support.hosts import Host


def nothing_is_left() -> bool:
    return not engines() and not [one for one in threading.enumerate() if one.name == "grundlag-script"]


async def test_cancelling_reaches_a_running_call(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.run("await contractSleep(60)"))
    await eventually(lambda: seen.runs["sleep"] == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert nothing_is_left()
    await eventually(lambda: seen.notes == ["cancelled"])


async def test_cancelling_ends_an_engine_that_computes(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.run("while True:\n    pass"))
    await eventually(lambda: len(engines()) == 1)
    await asyncio.sleep(0.1)
    running.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 5
    assert nothing_is_left()


async def test_a_signal_ends_the_calls_and_then_the_script(sandbox: Sandbox) -> None:
    signal = asyncio.Event()
    source = "try:\n    await contractSleep(60)\nexcept RuntimeError:\n    pass\nawait contractAdd(1, 2)"
    running = asyncio.create_task(sandbox.run(source, context=ToolContext(signal=signal)))
    await eventually(lambda: seen.runs["sleep"] == 1)
    signal.set()
    with pytest.raises(ScriptCancelledError) as raised:
        await running
    assert [call.code for call in raised.value.calls] == ["cancelled"]
    assert seen.runs["add"] == 0
    assert nothing_is_left()


async def test_a_signal_ends_an_engine_that_computes(sandbox: Sandbox) -> None:
    signal = asyncio.Event()
    running = asyncio.create_task(sandbox.run("while True:\n    pass", context=ToolContext(signal=signal)))
    await eventually(lambda: len(engines()) == 1)
    await asyncio.sleep(0.1)
    signal.set()
    with pytest.raises(ScriptCancelledError):
        await running
    assert nothing_is_left()


async def test_a_cancelled_script_gives_its_place_back(host: Host) -> None:
    sandbox = Sandbox(host.tools, pool=EnginePool(1))
    running = asyncio.create_task(sandbox.run("while True:\n    pass"))
    await eventually(lambda: len(engines()) == 1)
    queued = asyncio.create_task(sandbox.run("1"))
    await asyncio.sleep(0.05)
    queued.cancel()
    running.cancel()
    await asyncio.wait({running, queued})
    assert (await sandbox.run("2")).value == 2
