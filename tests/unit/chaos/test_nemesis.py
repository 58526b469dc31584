"""A nemesis with faults that note themselves, and with real processes for its victims."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from grundlag_bus.chaos.faults import FAULTS
from grundlag_bus.chaos.faults.fault import Fault, Ground, NothingToBefallError
from grundlag_bus.chaos.field import Field, Mark
from grundlag_bus.chaos.nemesis import ScheduledNemesis
from grundlag_bus.chaos.schedule import Kind
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WITHIN = 20.0


class Notes:
    """Faults that note when they begin and end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.healed: list[str] = []

    def fault(self, name: str, *, lasts: float = 0.0, small: bool = False, fails: bool = False) -> Fault:
        @asynccontextmanager
        async def inflict(ground: Ground, choice: int) -> AsyncIterator[str]:
            if fails:
                raise NothingToBefallError
            self.begun.append(name)
            try:
                yield f"target {choice % 1}"
            finally:
                await asyncio.sleep(0)
                self.healed.append(name)

        return Fault(Kind(name, (lasts, lasts), small=small), inflict)


@dataclass
class Victim:
    """A process that does nothing, as its keeper would start it."""

    name: str
    role: Literal["worker", "caller"]
    process: asyncio.subprocess.Process
    mortal: bool = True

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process.returncode is None else None

    @property
    def state(self) -> str:
        """R or S where it runs, T where it is stopped, as the system tells."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def nowhere(*victims: Victim) -> Field:
    return Field(lambda: victims, "amqp://nowhere/", "chaos")


@asynccontextmanager
async def victim(name: str, role: Literal["worker", "caller"], *, mortal: bool = True) -> AsyncIterator[Victim]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(600)")
    try:
        yield Victim(name, role, process, mortal)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def made(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.kind.name == name)


def ground(field: Field, **clocks: Path) -> Ground:
    return Ground(field, Path(), clocks, set())


async def test_every_fault_is_marked_when_it_begins_and_when_it_has_healed() -> None:
    notes = Notes()
    marks: list[Mark] = []
    nemesis = ScheduledNemesis(3, 15.0, [notes.fault("one", lasts=0.1, small=True)])
    await nemesis(nowhere(), marks.append)
    begun = [mark for mark in marks if mark.until is None]
    healed = [mark for mark in marks if mark.until is not None]
    assert len(begun) == len(healed) == len(notes.begun) == len(notes.healed) >= 1
    assert {(mark.at, mark.fault, mark.target) for mark in begun} == {
        (mark.at, mark.fault, mark.target) for mark in healed
    }
    assert all(mark.until is not None and mark.until >= mark.at for mark in healed)


async def test_a_run_that_is_cancelled_heals_what_there_is_and_begins_nothing_more() -> None:
    notes = Notes()
    marks: list[Mark] = []
    nemesis = ScheduledNemesis(3, 600.0, [notes.fault("one", lasts=60.0)])
    raging = asyncio.create_task(nemesis(nowhere(), marks.append))
    await eventually(lambda: notes.begun)
    raging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await raging
    assert notes.healed == notes.begun == ["one"]
    assert [mark.until is None for mark in marks] == [True, False]


async def test_a_fault_without_a_target_leaves_no_mark() -> None:
    marks: list[Mark] = []
    await ScheduledNemesis(3, 14.0, [Notes().fault("one", fails=True)])(nowhere(), marks.append)
    assert marks == []


def test_on_a_broker_of_somebody_else_what_needs_its_node_is_left_out_with_the_reason(tmp_path: Path) -> None:
    left_out = ScheduledNemesis(1, 60.0).left_out(nowhere())
    assert set(left_out) >= {"node-restart", "node-kill", "memory-alarm", "node-pause", "node-partition"}
    assert set(left_out) >= {"connection-cut", "slow-network", "half-open", "database-restart"}
    assert not set(left_out) & {"worker-kill", "caller-kill", "queue-deletion", "mailbox-deletion"}
    assert all(reason.startswith("it needs ") for reason in left_out.values())


async def test_a_killed_worker_is_a_mortal_one() -> None:
    async with victim("worker-1", "worker", mortal=False) as kept, victim("worker-2", "worker") as mortal:
        for choice in range(2):
            field = nowhere(kept, mortal)
            if mortal.pid is not None:
                async with made("worker-kill").inflict(ground(field), choice) as target:
                    assert target == "worker-2"
                await mortal.process.wait()
        assert kept.pid is not None
        with pytest.raises(NothingToBefallError):
            async with made("worker-kill").inflict(ground(nowhere(kept, mortal)), 0):
                pass


async def test_a_paused_process_stops_and_goes_on_and_no_other_fault_befalls_it_meanwhile() -> None:
    async with victim("caller-1", "caller") as only:
        here = ground(nowhere(only))
        async with made("caller-pause").inflict(here, 0) as target:
            assert target == "caller-1"
            await eventually(lambda: only.state == "T")
            with pytest.raises(NothingToBefallError):
                async with made("caller-kill").inflict(here, 0):
                    pass
        await eventually(lambda: only.state in "RS")
        async with made("caller-kill").inflict(here, 0):
            pass
        assert await only.process.wait() < 0


async def test_a_paused_process_that_dies_meanwhile_is_let_go() -> None:
    async with victim("worker-1", "worker") as only, made("worker-long-pause").inflict(ground(nowhere(only)), 0):
        only.process.kill()
        await only.process.wait()


async def test_a_clock_jumps_and_jumps_back_by_its_file_alone(tmp_path: Path) -> None:
    nemesis = ScheduledNemesis(1, 60.0)
    assert nemesis.environment("worker-1", tmp_path) == {}
    environment = nemesis.environment("worker-2", tmp_path)
    if not environment:
        assert "libfaketime" in nemesis.left_out(nowhere())["clock-jump"]
        return
    clock = tmp_path / "worker-2.clock"
    program = "import time\nwhile True: print(time.time() - time.monotonic(), flush=True); input()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )

    async def ahead() -> float:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.write(b"\n")
        return float(await process.stdout.readline()) - (time.time() - time.monotonic())

    async def becomes(jumped: bool) -> None:
        async with asyncio.timeout(WITHIN):
            while (abs(await ahead()) > 60) != jumped:
                pass  # each answer is a moment later

    only = Victim("worker-2", "worker", process)
    try:
        await becomes(jumped=False)
        async with made("clock-jump").inflict(ground(nowhere(only), **{"worker-2": clock}), 0) as target:
            assert target == "worker-2"
            await becomes(jumped=True)
        await becomes(jumped=False)
    finally:
        process.kill()
        await process.wait()
