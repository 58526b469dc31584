"""For users' own tests: call an action directly, or run a worker on a bus in memory.

async def test_creates_an_event() -> None:
    created = await create_event.execute(CreateEvent(title="Lunch"), testing.context(services={Clock: FixedClock()}))
    assert created.event_id
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from grundlag_bus.adapters.bus import Bus, TransportBus
from grundlag_bus.providers.context import ActionContext, ActionResumption
from grundlag_bus.providers.services import Services
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.transport import MemoryTransport
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.schema.items import Item
    from grundlag_bus.tools import Logger


def context(  # noqa: PLR0913  the fields of a context
    *,
    services: Mapping[type, Any] | None = None,
    user_id: str | None = None,
    answer: Any = None,
    state: Any = None,
    items: Iterable[Item] = (),
    call_id: str | None = None,
    timeout: float = 300.0,
    logger: Logger | None = None,
) -> ActionContext[Any]:
    """Make the context of an action for `action.execute(input, context)`.

    services: ready instances by type; answer, state: as if the call went on after an interrupt, with a value of the
    answer model; timeout: seconds until `deadline`. What the action emits is in `context.items.emitted`.
    """
    call_id = call_id or new_call_id()
    resumption = None if answer is None else ActionResumption(f"interrupt-of-{call_id}", answer, state, user_id)
    return ActionContext(
        services=Services.of(services or {}),
        call_id=call_id,
        provider_id="test",
        action_id="test",
        deadline=time.time() + timeout,
        user_id=user_id,
        resumption=resumption,
        items=[item.to_json() for item in items],
        logger=logger,
    )


@asynccontextmanager
async def memory_bus(registry: ProviderRegistry, *, concurrency: int = 64) -> AsyncIterator[Bus]:
    """Give a bus in memory with one worker of the registry serving it, for as long as it is entered."""
    transport = MemoryTransport()
    worker = Worker(transport, registry, concurrency=concurrency, grace=0)
    running = asyncio.get_running_loop().create_task(worker.run())
    started = asyncio.get_running_loop().create_task(worker.started.wait())
    try:
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        async with TransportBus(transport) as bus:
            yield bus
    finally:
        started.cancel()
        running.cancel()
        await asyncio.gather(running, started, return_exceptions=True)
