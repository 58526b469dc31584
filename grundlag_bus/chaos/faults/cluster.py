"""One of several nodes that stops for a while, or that the others do not reach."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault, whole
from grundlag_bus.chaos.faults.node import target
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.chaos.faults.fault import Ground


@asynccontextmanager
async def _paused(ground: Ground, choice: int) -> AsyncIterator[str]:
    control, node = target(ground, choice)
    try:
        await whole(control.pause(node))
        yield node
    finally:
        await whole(control.go_on(node))


@asynccontextmanager
async def _cut_off(ground: Ground, choice: int) -> AsyncIterator[str]:
    control, node = target(ground, choice)
    try:
        await whole(control.partition(node))
        yield node
    finally:
        await whole(control.join(node))


def _lacks(ground: Ground) -> str | None:
    if ground.field.node is None:
        return "it needs control of the broker's nodes"
    return "it needs a cluster" if len(ground.field.node.nodes) == 1 else None


FAULTS = (
    Fault(Kind("node-pause", (8.0, 16.0)), _paused, _lacks),
    Fault(Kind("node-partition", (8.0, 20.0)), _cut_off, _lacks),
)
