"""For users' own tests: call an action directly, or run a worker on a bus in memory.

async def test_creates_an_event() -> None:
    created = await create_event.execute(CreateEvent(title="Lunch"), testing.context(services={Clock: FixedClock()}))
    assert created.event_id
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.adapters.bus import Bus, TransportBus
from grundlag_bus.providers.checkpoints import as_json
from grundlag_bus.providers.context import TURN, ActionContext, ActionResumption
from grundlag_bus.providers.emitting import checked
from grundlag_bus.providers.provider import Event, undeclared_event
from grundlag_bus.providers.services import Services
from grundlag_bus.sandbox.script.running import Running
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.event import EmittedEvent, derived_event_id
from grundlag_bus.transport import MemoryTransport
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.schema.items import Item
    from grundlag_bus.tools import Logger
    from grundlag_bus.workers.ledger import Ledger


def context(  # noqa: PLR0913  the fields of a context
    *,
    services: Mapping[type, Any] | None = None,
    user_id: str | None = None,
    answer: Any = None,
    state: Any = None,
    checkpointed: Any = None,
    items: Iterable[Item] = (),
    call_id: str | None = None,
    timeout: float = 300.0,
    logger: Logger | None = None,
) -> TestedContext:
    """Make the context of an action for `action.execute(input, context)`.

    services: ready instances by type; answer, state: as if the call went on after an interrupt, with a value of the
    answer model; checkpointed: as if it was started again after such a `checkpoint`; timeout: seconds until `deadline`.
    The items that the action emits are in `context.items.emitted`, its events in `context.events`: checked where the
    action names the event itself, any JSON data where it names its id. Its checkpoints are in `context.checkpoints`.
    """
    call_id = call_id or new_call_id()
    resumption = None if answer is None else ActionResumption(f"interrupt-of-{call_id}", answer, state, user_id)
    return TestedContext(
        services=Services.of(services or {}),
        call_id=call_id,
        provider_id="test",
        action_id="test",
        deadline=time.time() + timeout,
        user_id=user_id,
        resumption=resumption,
        checkpointed=checkpointed,
        items=[item.to_json() for item in items],
        logger=logger,
    )


class TestedContext(ActionContext[Any]):
    """The context of an action that a test calls. events: what the action emitted; checkpoints: what it recorded."""

    __slots__ = ("checkpoints", "events")

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields, emit=self._keep, checkpoint=self._record)
        self.events: list[EmittedEvent] = []
        self.checkpoints: list[Any] = []

    def _record(self, state: Any) -> Awaitable[None]:
        self.checkpoints.append(orjson.loads(as_json(state)))
        return TURN

    def _keep(self, event: Event | str, data: Any) -> Awaitable[None]:
        declared = undeclared_event(event) if isinstance(event, str) else event
        told = EmittedEvent(
            id=derived_event_id(self.call_id, 1, len(self.events) + 1),
            provider_id=self.provider_id,
            event_id=declared.id,
            call_id=self.call_id,
            at=datetime.now(UTC),
            data=checked(declared, data, self.action_id),
            user_id=self.user_id,
        )
        self.events.append(told)
        return TURN


@asynccontextmanager
async def memory_bus(
    registry: ProviderRegistry, *, concurrency: int = 64, ledger: Ledger | None = None
) -> AsyncIterator[Bus]:
    """Give a bus in memory with one worker of the registry serving it, for as long as it is entered.

    ledger: the worker's, which actions that use `ctx.checkpoint` or `ctx.ledger_transaction` need.
    """
    transport = MemoryTransport()
    worker = Worker(transport, registry, concurrency=concurrency, grace=0, ledger=ledger)
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


@contextmanager
def forced_replay() -> Iterator[None]:
    """Let each script of this process be replayed from its journal before each outcome that it is given.

    As long as this is entered. What it gives and calls has to be the same; what is not has hidden in the engine.
    """
    before, Running.replay_always = Running.replay_always, True
    try:
        yield
    finally:
        Running.replay_always = before
