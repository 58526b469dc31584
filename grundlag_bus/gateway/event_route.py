"""`GET /api/events`: what actions emit, as a stream: the user's own events, and those that are nobody's."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from grundlag_bus.errors import ActionInputValidationError, ConfigurationError, Issue, TransportError
from grundlag_bus.gateway.refusing import busy
from grundlag_bus.gateway.stream import EventStream, event
from grundlag_bus.schema.event import encode_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

    from grundlag_bus.adapters import EventListener
    from grundlag_bus.gateway.host import Host
    from grundlag_bus.schema.event import EmittedEvent

NOTICES = "interrupt"
"""What stands in the place of a provider, where runs tell of their questions."""
LISTENING = b": listening\n\n"


async def listen(host: Host, request: Request) -> EventStream:
    """Listen for as long as the other side does. Raises CallError, Refused."""
    user_id = await host.user_id(request)
    if host.draining:
        raise busy(503, "The host drains: listen again, it may be another one.", after=1)
    try:
        listener = host.bus.events(request.query_params.get("pattern", "#"))
    except ConfigurationError as error:
        raise ActionInputValidationError("events", [Issue(("pattern",), "request_malformed", str(error))]) from error
    async with AsyncExitStack() as opening:
        opening.enter_context(host.shares.one(user_id))
        try:
            events = await opening.enter_async_context(listener)
        except TransportError as error:
            raise busy(503, "The bus cannot be reached now: listen again.", after=1) from error
        return EventStream(_parts(host, user_id, events), opening.pop_all(), until=host.closing)


async def _parts(host: Host, user_id: str | None, events: EventListener) -> AsyncGenerator[bytes, None]:
    yield LISTENING
    async for emitted in events:
        if await _is_for(host, user_id, emitted):
            yield event("event", encode_event(emitted))


async def _is_for(host: Host, user_id: str | None, emitted: EmittedEvent) -> bool:
    """Whether a user hears of an event: nobody else's, of a provider that the user is shown."""
    if emitted.user_id is not None and emitted.user_id != user_id:
        return False
    if emitted.provider_id == NOTICES:
        return host.runs is not None
    shown = await host.catalogue.shown_to(user_id)
    return emitted.provider_id in shown.providers
