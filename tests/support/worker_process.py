"""A worker of the contract registry in an operating system process of its own, which a test may kill.

`python -m tests.support.worker_process URL NAMESPACE KEYFILE` serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus import RabbitTransport, SealKeys, Worker
from tests.support.contract_registry import make_registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_STARTED = b"started\n"


class WorkerProcess:
    """The process as its test sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> None:
        """Kill it (SIGKILL), and return when it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Let it drain, and return its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self._process.wait()


@asynccontextmanager
async def worker_process(url: str, namespace: str, keys: Path) -> AsyncIterator[WorkerProcess]:
    """Start a worker, and give it when it serves; it is killed in the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.support.worker_process", url, namespace, str(keys)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    started = WorkerProcess(process)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == _STARTED
        yield started
    finally:
        await started.kill()


@asynccontextmanager
async def supervised_worker(url: str, namespace: str, keys: Path) -> AsyncIterator[None]:
    """Have a worker, and another one whenever it dies, as a supervisor would."""
    process: asyncio.subprocess.Process | None = None

    async def supervise() -> None:
        nonlocal process
        while True:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.support.worker_process", url, namespace, str(keys)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
            )
            await process.wait()

    supervision = asyncio.create_task(supervise(), name="supervise a worker")
    try:
        yield
    finally:
        supervision.cancel()
        await asyncio.wait({supervision})
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


async def _serve(url: str, namespace: str, keys: str) -> None:
    transport = RabbitTransport(url, namespace=namespace)
    worker = Worker(transport, make_registry(SealKeys.load(keys)))
    serving = asyncio.create_task(worker.run())
    await worker.started.wait()
    sys.stdout.buffer.write(_STARTED)
    sys.stdout.buffer.flush()
    await asyncio.to_thread(sys.stdin.read)  # its owner has gone, or wants it to stop
    serving.cancel()
    await asyncio.wait({serving})
    await transport.close()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
