"""One worker process from its start to its end, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.workers.status import decode_status

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping, Sequence

    from grundlag_bus.workers.status import WorkerStatus


class WorkerProcess:
    """A fresh interpreter in a session of its own: Ctrl-C at a terminal reaches the supervisor alone.

    heard: called at each of its reports.
    """

    def __init__(self, process: Process, reader: StreamReader, writer: StreamWriter, heard: Callable[[], None]) -> None:
        self._process = process
        self._writer = writer
        self._heard = heard
        self._reading = asyncio.create_task(self._read(reader))
        self.status: WorkerStatus | None = None
        self.started_at = self.heard_at = time.monotonic()

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str], heard: Callable[[], None]
    ) -> WorkerProcess:
        """Start `grundlag-bus` with these arguments and the socket it reports through. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *_interpreter(),
                    *("-m", "grundlag_bus", *arguments, f"--report-to={theirs.fileno()}"),
                    stdin=DEVNULL,
                    env=environment,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer, heard)

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, word: bytes) -> None:
        """Say something to it; one that has ended does not hear it."""
        if not self._writer.is_closing():
            self._writer.write(word)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> int:
        """Return its exit code when it has ended, or the negative number of the signal that ended it."""
        code = await self._process.wait()
        self._reading.cancel()
        await asyncio.wait((self._reading,))
        self._writer.close()
        return code

    async def _read(self, reader: StreamReader) -> None:
        with suppress(ConnectionError):
            async for line in reader:
                self.status = decode_status(line)
                self.heard_at = time.monotonic()
                self._heard()


def _interpreter() -> list[str]:
    """Name the interpreter, which looks for modules where this one does and nowhere before that."""
    here = os.fspath(Path.cwd())
    return [sys.executable, *(() if here in sys.path or "" in sys.path else ("-P",))]
