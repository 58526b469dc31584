"""What a fault is: something that befalls a part of the field, and is healed whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from grundlag_bus.chaos.field import RECOVERS_WITHIN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from grundlag_bus.chaos.field import Field
    from grundlag_bus.chaos.schedule import Kind

T = TypeVar("T")


class NothingToBefallError(Exception):
    """At this moment there is no target, since others have befallen them all: this fault does not happen."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where faults happen.

    folder: where the fleet keeps its histories; clocks: the files that move the clocks of processes; held: processes
    that a fault lasts for, which no other one befalls meanwhile.
    """

    field: Field
    folder: Path
    clocks: Mapping[str, Path]
    held: set[str]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, and how it is made.

    lacks: says what is not there that it needs; inflict: an async context in which it lasts, that gives the name of
    what it befell; its choice is a number that decides between several targets. within: seconds after its healing in
    which calls complete again.
    """

    kind: Kind
    inflict: Callable[[Ground, int], AbstractAsyncContextManager[str]]
    lacks: Callable[[Ground], str | None] = lambda _: None
    within: float = RECOVERS_WITHIN


def chosen(targets: Sequence[T], choice: int) -> T:
    """Take one of them. Raises NothingToBefallError."""
    if not targets:
        raise NothingToBefallError
    return targets[choice % len(targets)]


async def whole(doing: Coroutine[None, None, None]) -> None:
    """Do it to its end, also when this is cancelled meanwhile: half of it could not be healed."""
    done = asyncio.get_running_loop().create_task(doing)
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait({done})
        raise
