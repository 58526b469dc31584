"""A worker in a process of its own, started and stopped by the demo."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from typing import TYPE_CHECKING

import orjson

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_STOP_WITHIN = 10.0
_KEPT_LINES = 20


class WorkerProcess:
    """Reads the JSON lines that `grundlag-bus worker` logs: one of them says that it serves."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._command = command
        self._directory = directory
        self._environment = environment
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)

    @property
    def pid(self) -> int:
        """The id of the process; 0 before it is started."""
        return 0 if self._process is None else self._process.pid

    async def start(self) -> str:
        """Start it, wait until it serves, and return its worker's name. Raises ConfigurationError if it ends first."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, cwd=self._directory, env=self._environment, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._process, serving))
        await asyncio.wait((serving, self._reading), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            return serving.result()
        code = await self._process.wait()
        told = self._last_lines[-1] if self._last_lines else "nothing"
        raise ConfigurationError(f"A worker of the demo ended before it served (exit code {code}) and said: {told}")

    async def stop(self) -> None:
        """Let it drain, and kill it when it takes too long."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def _read(self, process: Process, serving: asyncio.Future[str]) -> None:
        assert process.stderr is not None  # noqa: S101  for mypy: it was started with a pipe
        async for line in process.stderr:
            self._last_lines.append(line.decode(errors="replace").strip())
            worker = _who_serves(line)
            if worker is not None and not serving.done():
                serving.set_result(worker)


def _who_serves(line: bytes) -> str | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(entry, dict) and entry.get("event") == "serving":
        return str(entry.get("worker"))
    return None
