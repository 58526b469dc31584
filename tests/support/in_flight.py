"""Calls that are on their way over RabbitMQ, as tests of faults look at them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from grundlag_bus import Outcome, RabbitTransport, ToolContext
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host


def transport_of(host: Host) -> RabbitTransport:
    assert isinstance(host.bus.transport, RabbitTransport)
    return host.bus.transport


def all_confirmed(host: Host, in_flight: int) -> bool:
    """Tell whether so many calls are in flight and the broker has them all."""
    publisher = transport_of(host)._publisher
    assert publisher is not None
    return (host.bus_caller.in_flight, publisher.outstanding) == (in_flight, 0)


def nothing_waits(host: Host) -> bool:
    """Tell whether neither the caller nor its transport keeps anything of a call that has ended."""
    publisher = transport_of(host)._publisher
    assert publisher is not None
    return (host.bus_caller.in_flight, publisher.outstanding, publisher.unconfirmed_bytes) == (0, 0, 0)


async def held(host: Host, name: str, count: int, context: ToolContext | None = None) -> list[asyncio.Task[Any]]:
    """Start calls that wait at a gate, and return when they run and their callers know that they were published."""
    before = seen.runs[f"hold {name}"]
    calls = [asyncio.create_task(host.execute("hold", {"name": name}, context)) for _ in range(count)]
    await eventually(lambda: seen.runs[f"hold {name}"] == before + count and all_confirmed(host, count))
    return calls


def told(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(outcome.status if outcome.error is None else type(outcome.error).__name__ for outcome in outcomes)
