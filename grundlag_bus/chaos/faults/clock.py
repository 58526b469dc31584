"""The clock of one process jumps, by libfaketime (Debian's package `libfaketime`), and jumps back.

Only the time of day does; what a process measures time with goes on evenly, as on a machine whose clock is set.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault, chosen
from grundlag_bus.chaos.field import CLOCK_JUMP
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from grundlag_bus.chaos.faults.fault import Ground

_RIGHT = "+0"
_JUMPS = ("+1h", "-1h", "+90s", "-90s", "+400d")
_PLACES = tuple(f"{folder}/faketime/libfaketimeMT.so.1" for folder in ("lib/*", "lib", "local/lib"))


def movable_clock(file: Path) -> Mapping[str, str]:
    """Give the environment of a process whose clock is moved by this file; empty where there is no libfaketime."""
    library = _library()
    if library is None:
        return {}
    _set(file, _RIGHT)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


@asynccontextmanager
async def _jumped(ground: Ground, choice: int) -> AsyncIterator[str]:
    clocked = [each.name for each in ground.field.victims() if each.pid is not None]
    name = chosen([each for each in clocked if each in ground.clocks and each not in ground.held], choice)
    ground.held.add(name)
    try:
        _set(ground.clocks[name], chosen(_JUMPS, choice))
        yield name
    finally:
        _set(ground.clocks[name], _RIGHT)
        ground.held.discard(name)


def _set(file: Path, jump: str) -> None:
    """Write as a whole: a reader sees the one or the other."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{jump}\n")
    fresh.replace(file)


def _library() -> Path | None:
    found = (path for pattern in _PLACES for path in Path("/usr").glob(pattern))
    return next(found, None)


def _lacks(ground: Ground) -> str | None:
    return None if ground.clocks else "it needs libfaketime: install Debian's package of that name"


FAULTS = (Fault(Kind(CLOCK_JUMP, (2.0, 5.0), small=True), _jumped, _lacks),)
