"""The fleet: its processes, each with a keeper that starts it again whenever it dies."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grundlag_bus.chaos.history import SUFFIX
from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from grundlag_bus.chaos.processes.config import Config

_PAUSE = 0.25
_LONGEST_PAUSE = 4.0
_LIVED = 5.0
"""Seconds after which a process that died had begun well: the next one is started at once."""
_BEGINS_IN = 3
"""Lives: a process that died in each of them before it began will not begin at all."""
_GOES_WITHIN = 30.0
_LOOKED_EVERY = 0.05


class Member:
    """A process of the fleet, whichever life of it; see `Victim`."""

    def __init__(
        self,
        config: Config,
        role: Literal["worker", "caller"],
        environment: Callable[[], Mapping[str, str]],
        *,
        mortal: bool,
    ) -> None:
        self.name = config.name
        self.role: Literal["worker", "caller"] = role
        self.mortal = mortal
        self.lives = 0
        self._config = config
        self._environment = environment
        self._process: Process | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """None while it is down."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def has_begun(self) -> bool:
        """Whether any life of it has begun its work."""
        folder = Path(self._config.folder)
        return any(b'["began"' in file.read_bytes() for file in folder.glob(f"{self.name}.*{SUFFIX}"))

    def last_said(self) -> str:
        """Return the last line of its log."""
        lines = self._config.log.read_text(errors="replace").split("\n") if self._config.log.exists() else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")

    async def keep(self) -> None:
        """Start it, and again whenever it dies, until it ends by itself or is stopped."""
        pause = _PAUSE
        while not self._stopping:
            began = asyncio.get_running_loop().time()
            if await self._live() == 0:
                return
            lived = asyncio.get_running_loop().time() - began
            pause = _PAUSE if lived > _LIVED else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _live(self) -> int:
        self.lives += 1
        config = replace(self._config, life=self.lives)
        config.write()
        with config.open_log() as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", f"grundlag_bus.chaos.processes.{self.role}", str(config.file)),
                stdin=PIPE,
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,
            )
        self._process = process
        try:
            if self._stopping:
                self._end_in_order(process)
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def stop(self) -> None:
        """Let it end in order, and not begin again."""
        self._stopping = True
        if self._process is not None:
            self._end_in_order(self._process)

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    @staticmethod
    def _end_in_order(process: Process) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()


class Fleet:
    """Members, kept for as long as it is entered."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = tuple(members)
        self._keeping: dict[Member, asyncio.Task[None]] = {}

    def start(self, role: str) -> None:
        """Start the members of a role."""
        for member in self.members:
            if member.role == role:
                self._keeping[member] = asyncio.get_running_loop().create_task(member.keep())

    async def ended(self, role: str, within: float) -> list[str]:
        """Wait until the members of a role have ended by themselves, and name those that have not in time."""
        keeping = {task: member.name for member, task in self._keeping.items() if member.role == role}
        if not keeping:
            return []
        done, waiting = await asyncio.wait(keeping, timeout=within)
        for each in done:
            each.result()
        return sorted(keeping[each] for each in waiting)

    async def stop(self, role: str, within: float = _GOES_WITHIN) -> list[str]:
        """Let them end in order; kill, and name, those that do not."""
        for member in self.members:
            if member.role == role:
                member.stop()
        late = await self.ended(role, within)
        for member in self.members:
            if member.name in late:
                member.kill()
        return late

    async def close(self) -> None:
        """Kill whatever is left."""
        for task in self._keeping.values():
            task.cancel()
        await asyncio.gather(*self._keeping.values(), return_exceptions=True)


@asynccontextmanager
async def fleet_of(members: Sequence[Member]) -> AsyncIterator[Fleet]:
    """Give the members a fleet; whatever is left of it is killed at the end."""
    fleet = Fleet(members)
    try:
        yield fleet
    finally:
        await fleet.close()


async def until_began(members: Sequence[Member], *, within: float) -> None:
    """Wait until each of them has begun its work once. Raises ConfigurationError with what one said that has not."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    for member in members:
        while not member.has_begun():
            if loop.time() > end or member.lives > _BEGINS_IN:
                raise ConfigurationError(
                    f"The process {member.name} does not begin; it said at last: {member.last_said().rstrip('.')}."
                )
            await asyncio.sleep(_LOOKED_EVERY)
