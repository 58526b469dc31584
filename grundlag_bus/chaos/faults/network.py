"""Connections between the fleet and the broker that end, are slow, or carry nothing any more."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.chaos.faults.fault import Ground
    from grundlag_bus.chaos.field import Proxy

_DELAYS = (0.02, 0.1, 0.3)
_ALL = "every connection"


@asynccontextmanager
async def _cut(ground: Ground, _: int) -> AsyncIterator[str]:
    await _proxy(ground).cut()
    yield _ALL


@asynccontextmanager
async def _slow(ground: Ground, choice: int) -> AsyncIterator[str]:
    proxy = _proxy(ground)
    try:
        await proxy.delay(_DELAYS[choice % len(_DELAYS)])
        yield _ALL
    finally:
        await proxy.delay(0)  # not `heal`, since half of the connections may be open beside it


@asynccontextmanager
async def _half_open(ground: Ground, _: int) -> AsyncIterator[str]:
    proxy = _proxy(ground)
    try:
        await proxy.freeze()
        yield _ALL
    finally:
        await proxy.heal()


def _proxy(ground: Ground) -> Proxy:
    if ground.field.proxy is None:
        raise LookupError("Nothing stands between the fleet and the broker.")
    return ground.field.proxy


def _lacks(ground: Ground) -> str | None:
    return None if ground.field.proxy is not None else "it needs a proxy before the broker, and TLS allows none"


FAULTS = (
    Fault(Kind("connection-cut", small=True), _cut, _lacks),
    Fault(Kind("slow-network", (1.0, 4.0), small=True), _slow, _lacks),
    Fault(Kind("half-open", (6.0, 12.0)), _half_open, _lacks),
)
