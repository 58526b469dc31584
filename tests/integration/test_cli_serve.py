"""`grundlag-bus serve`: a host of its own, told by options who may call, and ended by signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw_http import post, send

APP = """
import asyncio
from grundlag_bus import Provider, ProviderRegistry

slow = Provider("slow", name="Slow")

@slow.action("wait", name="Wait")
async def wait(seconds: float) -> str:
    print("waiting", flush=True)
    await asyncio.sleep(seconds)
    return "waited"

registry = ProviderRegistry([slow])
"""
TOKEN = "0123456789abcdef"
ROOT = str(Path(__file__).resolve().parents[2])


class Served:
    """The process, and where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url

    async def call(self, seconds: float, **headers: str) -> Any:
        return await send(self.url, post("/api/actions/slow/wait", b'{"input":%g}' % seconds, **headers))

    async def waiting(self) -> None:
        """Return when the action has begun."""
        assert self.process.stdout is not None
        assert await self.process.stdout.readline() == b"waiting\n"

    async def ended(self) -> int:
        async with asyncio.timeout(30):
            return await self.process.wait()


async def serve(folder: Path, *options: str) -> Served:
    (folder / "app.py").write_text(APP)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grundlag_bus", "serve", "app:registry", "--port", "0", *options),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async for line in process.stderr:
        told = json.loads(line)
        if told["event"] == "serving":
            return Served(process, told["url"])
    raise AssertionError("it ended before it served")


async def refusal(folder: Path, *options: str) -> str:
    """Start it with options that it refuses, and return the sentence that it ends with."""
    (folder / "app.py").write_text(APP)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grundlag_bus", "serve", *options),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ROOT},
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    assert process.returncode == 2
    return told.decode()


async def test_a_signal_drains_it(tmp_path: Path) -> None:
    served = await serve(tmp_path)
    going = asyncio.create_task(served.call(0.5))
    await served.waiting()
    served.process.send_signal(signal.SIGTERM)
    answer = await going
    assert answer.json() == {"status": "completed", "result": "waited", "items": []}
    assert await served.ended() == 0


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    served = await serve(tmp_path)
    going = asyncio.create_task(served.call(60))
    await served.waiting()
    served.process.send_signal(signal.SIGTERM)
    served.process.send_signal(signal.SIGINT)
    assert await served.ended() == 128 + signal.SIGINT
    await going


async def test_tokens_and_allow_lists_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"# users\n{TOKEN} ada\n{TOKEN * 2} bob\n")
    (tmp_path / "allow.json").write_text('{"ada": ["slow.*"]}')
    served = await serve(tmp_path, "--tokens", "tokens", "--allow", "allow.json")
    statuses = [
        (await served.call(0)).status,
        (await served.call(0, Authorization=f"Bearer {TOKEN * 2}")).status,
        (await served.call(0, Authorization=f"Bearer {TOKEN}")).status,
    ]
    served.process.send_signal(signal.SIGTERM)
    assert statuses == [401, 403, 200]
    assert await served.ended() == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "Neither a bus nor a registry is given"),
        (("app:registry", "--host", "0.0.0.0"), "Without authentication the host listens on loopback alone"),  # noqa: S104  it must not
        (("app:registry", "--host", "::"), "Without authentication the host listens on loopback alone"),
        (("app:registry", "--tokens", "none"), "The tokens cannot be read from none"),
        (("app:registry", "--tokens", "app.py"), "is no token: take 16 letters"),
        (("app:registry", "--allow", "none"), "The allow-lists cannot be read from none"),
        (("app:registry", "--jwks", "https://keys.example/"), "--jwks needs --audience and --issuer"),
        (("app:registry", "--audience", "us"), "add --jwks"),
        (("app:registry", "--jwks", "x", "--tokens", "y"), "Both --tokens and --jwks are given"),
        (("app:registry", "--jwks", "http://keys.example/", "--audience", "a", "--issuer", "i"), "use https://"),
        (("app:registry", "--cors", "example.com"), "'example.com' is no origin"),
        (("app:registry", "--url", "amqp://localhost"), "Both --url and --registry are given"),
        (("--url", "amqp://localhost", "--keys", "nowhere/k"), "grundlag-bus keys new nowhere/k"),
        (("app:registry", "--store", "sqlite:///runs.sqlite"), "give --url with --store"),
        (("--url", "amqp://localhost", "--store", "sqlite:////nowhere/runs.sqlite"), "The database 'store'"),
        (("--url", "memory://x"), "memory:// is a bus inside one process"),
    ],
)
async def test_what_cannot_be_served_is_told(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    assert why in await refusal(tmp_path, *options)
