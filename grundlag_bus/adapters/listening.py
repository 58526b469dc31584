"""Listening to events: over a transport, or in this process.

Rules:
- What is emitted after a listener was entered is heard, in order for each worker, until it is left.
- A delivery is settled when the next event is asked for. One that comes again after a lost connection takes the place
  of the one that was lost, or is dropped if its event was heard already: the newest ids are remembered.
- The broker keeps what is emitted while the connection is away, for a minute. What is lost after that is a gap.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Self

from grundlag_bus.errors import EnvelopeError, TransportClosedError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.event import EmittedEvent, check_pattern, decode_event, encode_event
from grundlag_bus.transport.memory.exchange import topic_matches

if TYPE_CHECKING:
    from types import TracebackType

    from grundlag_bus.transport.base import Delivery, Subscription, Transport

PREFETCH = 256
"""Events that wait here; all others wait on the broker."""
_REMEMBERED = 2 * PREFETCH

_LOGGER = get_logger("grundlag_bus.adapters")


class EventListener(ABC):
    """An async context manager over which to iterate: `EmittedEvent` after `EmittedEvent`. Made by `Bus.events`.

    gaps: how often events may have been missed, since the broker lost what it kept for this listener.
    """

    def __init__(self, pattern: str) -> None:
        self.gaps = 0
        self._pattern = check_pattern(pattern)
        self._heard: OrderedDict[str, tuple[EmittedEvent, Delivery | None]] = OrderedDict()
        self._given: OrderedDict[str, Delivery | None] = OrderedDict()
        self._changed = asyncio.Event()
        self._open = False

    @abstractmethod
    async def _attach(self) -> None: ...

    @abstractmethod
    async def _detach(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self._attach()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hear nothing more, and end whoever iterates. Idempotent."""
        if self._open:
            self._open = False
            self._heard.clear()
            self._changed.set()
            await self._detach()

    def __aiter__(self) -> Self:
        if not self._open:
            raise TransportClosedError("Nothing listens: enter it first, as in `async with bus.events(...) as events`.")
        return self

    async def __anext__(self) -> EmittedEvent:
        self._settle()
        while self._open and not self._heard:
            self._changed.clear()
            await self._changed.wait()
        if not self._open:
            raise StopAsyncIteration
        event_id, (event, delivery) = self._heard.popitem(last=False)
        self._given[event_id] = delivery
        return event

    def _settle(self) -> None:
        """Settle what was handed out, and forget the oldest of it."""
        for event_id, delivery in reversed(self._given.items()):
            if delivery is None:
                break
            delivery.ack()
            self._given[event_id] = None
        while len(self._given) > _REMEMBERED:
            self._given.popitem(last=False)

    def hear(self, event: EmittedEvent, delivery: Delivery | None = None) -> None:
        """Take an event that matches."""
        if self._given.get(event.id) is not None:
            self._given[event.id] = delivery  # it is still being worked on
        elif event.id in self._given:
            _ack(delivery)
        else:
            _, lost = self._heard.get(event.id, (event, None))
            _ack(lost)
            self._heard[event.id] = event, delivery
            self._changed.set()

    def matches(self, event: EmittedEvent) -> bool:
        return topic_matches(self._pattern, event.key)


def _ack(delivery: Delivery | None) -> None:
    if delivery is not None:
        delivery.ack()


class QueueListener(EventListener):
    """Listens over a transport, by a queue of its own."""

    def __init__(self, transport: Transport, pattern: str) -> None:
        super().__init__(pattern)
        self._transport = transport
        self._queue = transport.topology.event_queue(new_call_id(), pattern)
        self._subscription: Subscription | None = None

    async def _attach(self) -> None:
        self._subscription = await self._transport.subscribe(
            self._queue, self._receive, prefetch=PREFETCH, renewed=self._renewed
        )

    async def _detach(self) -> None:
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            await subscription.close()

    def _renewed(self) -> None:
        self.gaps += 1

    def _receive(self, delivery: Delivery) -> None:
        try:
            event = decode_event(delivery.message.body)
        except EnvelopeError as error:
            self._refuse(delivery, error.reason)
            return
        came_as = delivery.message.routing_key
        if event.key == came_as:  # who may publish what is the broker's permission, which knows this alone
            self.hear(event, delivery)
        else:
            self._refuse(delivery, f"it names {event.key!r} and came as {came_as!r}")

    def _refuse(self, delivery: Delivery, reason: str) -> None:
        _LOGGER.warning("event_refused", reason=reason, pattern=self._pattern)
        delivery.ack()


class Hub:
    """Passes events on within this process."""

    def __init__(self) -> None:
        self.open = False
        self.listeners: set[HubListener] = set()

    async def __call__(self, event: EmittedEvent, /, *, deadline: float) -> None:  # noqa: ARG002  it is at once
        """See `EventSink`. Each listener gets data of its own."""
        for listener in tuple(self.listeners):
            if listener.matches(event):
                listener.hear(decode_event(encode_event(event)))


class HubListener(EventListener):
    """Listens in this process. What waits here has no bound, as it has none on a broker."""

    def __init__(self, hub: Hub, pattern: str) -> None:
        super().__init__(pattern)
        self._hub = hub

    async def _attach(self) -> None:
        if not self._hub.open:
            raise TransportClosedError("The bus is not open: listen inside `async with connect(...) as bus`.")
        self._hub.listeners.add(self)

    async def _detach(self) -> None:
        self._hub.listeners.discard(self)
