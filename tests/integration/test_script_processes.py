"""Engines and the process that has started them: one that dies takes them along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.engines import engines

HOST = """\
import asyncio
from grundlag_bus import Sandbox, ToolContext, define_tool

async def wait(value, context: ToolContext) -> None:
    await asyncio.sleep(60)

async def main() -> None:
    tools = {"wait": define_tool(id="wait", name="Wait", input={}, output={}, execute=wait)}
    sandbox = Sandbox(tools)
    await asyncio.gather(sandbox.run("while True:\\n    pass"), sandbox.run("await wait(1)"))

asyncio.run(main())
"""


def alive(process: int) -> bool:
    return Path(f"/proc/{process}/stat").exists()


def test_a_killed_host_leaves_no_engine_running() -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST], stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        while len(started := engines(host.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(started) == 2
        host.send_signal(signal.SIGKILL)
        host.wait(10)
        end = time.monotonic() + 2
        while any(map(alive, started)) and time.monotonic() < end:
            time.sleep(0.02)
        assert not [one for one in started if alive(one)]
    finally:
        host.kill()
        host.communicate()


BOUNDS = """\
import asyncio
import os
from pathlib import Path
from grundlag_bus import Sandbox
from tests.support.engines import engines

async def main() -> None:
    running = asyncio.create_task(Sandbox({}).run("while True:\\n    pass"))
    while not (found := engines()):
        await asyncio.sleep(0.02)
    proc = Path(f"/proc/{found[0]}")
    print(proc.joinpath("environ").read_bytes() == b"")
    print(os.getsid(found[0]) == found[0])
    print(next(l.split()[1] for l in proc.joinpath("status").read_text().splitlines() if l.startswith("NoNewPrivs")))
    limits = {line[:25].strip(): line[26:46].strip() for line in proc.joinpath("limits").read_text().splitlines()}
    print(limits["Max data size"], limits["Max core file size"], limits["Max file size"], limits["Max cpu time"])
    running.cancel()
    await asyncio.wait({running})

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/usr/bin/prlimit").exists(), reason="this machine has no util-linux to bound it with")
def test_an_engine_knows_nothing_of_its_host_and_is_bounded_from_outside() -> None:
    environment = {**os.environ, "SECRET": "hunter2"}
    told = subprocess.run(
        [sys.executable, "-c", BOUNDS], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    empty, own_session, no_new_privileges, limits = told.stdout.splitlines()
    assert (empty, own_session, no_new_privileges) == ("True", "True", "1")
    assert limits == f"{(128 + 56) * 1024 * 1024} 0 0 15"
