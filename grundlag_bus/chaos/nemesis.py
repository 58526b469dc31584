"""Makes faults happen as a schedule says, and heals each of them, whatever ends the run."""

from __future__ import annotations

import asyncio
import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults import FAULTS
from grundlag_bus.chaos.faults.clock import movable_clock
from grundlag_bus.chaos.faults.fault import Ground, NothingToBefallError
from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.schedule import QUIET, least_seconds, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grundlag_bus.chaos.faults.fault import Fault
    from grundlag_bus.chaos.field import Field
    from grundlag_bus.chaos.schedule import Planned

_CLOCKED = "worker-2"
"""The one process whose clock can be moved: what makes that possible makes it slower, and others are to be as usual."""


class ScheduledNemesis:
    """The `Nemesis` of the suite. seconds: how long the run is; faults: those that it chooses from."""

    def __init__(self, seed: int, seconds: float, faults: Sequence[Fault] = FAULTS) -> None:
        self._seed = seed
        self._seconds = seconds
        self._faults = {fault.kind.name: fault for fault in faults}
        self._folder = Path()
        self._clocks: dict[str, Path] = {}

    def environment(self, victim: str, folder: Path) -> Mapping[str, str]:
        """See `Nemesis`."""
        self._folder = folder
        if victim != _CLOCKED:
            return {}
        clock = folder / f"{victim}.clock"
        environment = movable_clock(clock)
        if environment:
            self._clocks[victim] = clock
        return environment

    def left_out(self, field: Field) -> Mapping[str, str]:
        """See `Nemesis`."""
        ground = self._ground(field)
        return {name: why for name, fault in self._faults.items() if (why := fault.lacks(ground)) is not None}

    def least_seconds(self, field: Field) -> float:
        """Return how long a run has to be for every fault that can be made here to happen."""
        return least_seconds([fault.kind for fault in self._made(field)])

    async def __call__(self, field: Field, mark: Callable[[Mark], None]) -> None:
        """See `Nemesis`. A round that is late, since what came before took longer to heal, leaves its quiet time."""
        ground = self._ground(field)
        began = time.monotonic()
        quiet = began
        plan = schedule(self._seed, self._seconds, [fault.kind for fault in self._made(field)])
        for _, faults in groupby(plan, lambda planned: planned.round):
            together = list(faults)
            late = max(0.0, quiet - (began + together[0].begin))
            if late + max(each.end for each in together) > self._seconds:
                return
            async with asyncio.TaskGroup() as happening:
                for planned in together:
                    due = began + planned.begin + late
                    happening.create_task(self._befall(planned, due, ground, mark), name=planned.fault)
            quiet = time.monotonic() + QUIET

    async def _befall(self, planned: Planned, due: float, ground: Ground, mark: Callable[[Mark], None]) -> None:
        fault = self._faults[planned.fault]
        await asyncio.sleep(due - time.monotonic())
        at, target = time.monotonic(), None
        try:
            async with fault.inflict(ground, planned.choice) as target:
                mark(Mark(at, planned.fault, target, within=fault.within))
                await asyncio.sleep(planned.lasts)
        except NothingToBefallError:
            return
        finally:
            if target is not None:
                mark(Mark(at, planned.fault, target, time.monotonic(), fault.within))

    def _made(self, field: Field) -> list[Fault]:
        left_out = self.left_out(field)
        return [fault for name, fault in self._faults.items() if name not in left_out]

    def _ground(self, field: Field) -> Ground:
        return Ground(field, self._folder, self._clocks, set())
