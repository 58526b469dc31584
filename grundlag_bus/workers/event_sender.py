"""Publishes the events that actions emit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.errors import EventNotSentError
from grundlag_bus.schema.event import TYPE, EmittedEvent, encode_event
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.confirmed import Fate, publish_confirmed

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Transport

_REASONS = {
    Fate.FORBIDDEN: "the broker does not let this worker publish it: give its user the right to write to the events.",
    Fate.GIVEN_UP: "the broker did not confirm it before the deadline of the call.",
    Fate.CLOSED: "the worker's connection was closed.",
}


class EventSender:
    """See `EventSink`. That nobody listens is no error."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def __call__(self, event: EmittedEvent, /, *, deadline: float) -> None:
        route = self._transport.topology.event_route(event.provider_id, event.event_id)
        message = Message(encode_event(event), TYPE, correlation_id=event.call_id)
        fate = await publish_confirmed(self._transport, route, message, until=deadline)
        if fate in _REASONS:
            accepted = None if fate is Fate.GIVEN_UP else False
            raise EventNotSentError(event.event_id, _REASONS[fate], accepted=accepted)
