"""A broker's node that is restarted, dies, or says that it is out of memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault, chosen, whole
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.chaos.faults.fault import Ground
    from grundlag_bus.chaos.field import NodeControl


@asynccontextmanager
async def _restarted(ground: Ground, choice: int) -> AsyncIterator[str]:
    control, node = target(ground, choice)
    await whole(control.restart(node))
    yield node


@asynccontextmanager
async def _killed(ground: Ground, choice: int) -> AsyncIterator[str]:
    control, node = target(ground, choice)
    try:
        await whole(control.kill(node))
        yield node
    finally:
        await whole(control.start(node))


@asynccontextmanager
async def _alarmed(ground: Ground, choice: int) -> AsyncIterator[str]:
    control, node = target(ground, choice)
    try:
        await whole(control.alarm(node))
        yield node
    finally:
        await whole(control.lift(node))


def target(ground: Ground, choice: int) -> tuple[NodeControl, str]:
    """Choose one of the nodes."""
    control = ground.field.node
    if control is None:
        raise LookupError("Nobody controls the broker's nodes.")
    return control, chosen(control.nodes, choice)


def _lacks(ground: Ground) -> str | None:
    return None if ground.field.node is not None else "it needs control of the broker's node"


FAULTS = (
    Fault(Kind("node-restart", heals=7.0), _restarted, _lacks),
    Fault(Kind("node-kill", (0.5, 3.0), heals=6.0), _killed, _lacks),
    Fault(Kind("memory-alarm", (2.0, 5.0), heals=3.0), _alarmed, _lacks),
)
