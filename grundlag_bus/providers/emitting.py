"""Events that actions emit: checked here, and sent by whoever runs the call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from grundlag_bus.errors import EventInvalidError, EventNotSentError, Issue, PayloadTooLargeError
from grundlag_bus.providers.context import TURN
from grundlag_bus.schema.codec import ensure_size
from grundlag_bus.schema.event import EmittedEvent, derived_event_id
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.schema.shape import MismatchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.providers.provider import Event, Provider
    from grundlag_bus.schema.envelope import Call


class EventSink(Protocol):
    """Sends events to whoever listens."""

    async def __call__(self, event: EmittedEvent, /, *, deadline: float) -> None:
        """Send, and return when that is sure. Raises EventNotSentError, at the deadline at the latest."""


async def drop(_event: EmittedEvent, /, *, deadline: float) -> None:
    """Send to nobody: where actions run without a bus."""


class Emitting:
    """Emits the events of one start of a call, from the loop in which it was made or from a thread."""

    __slots__ = ("_call", "_clock", "_loop", "_ordinals", "_provider", "_sink")

    def __init__(self, provider: Provider, call: Call, sink: EventSink, clock: Callable[[], float]) -> None:
        self._provider = provider
        self._call = call
        self._sink = sink
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ordinals = count(1)

    def __call__(self, event: Event | str, data: Any) -> Awaitable[None]:
        """See `ActionContext.emit`."""
        declared = self._provider.find_event(event)
        sending = self._sink(self._emitted(declared, data), deadline=self._call.deadline)
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001  the public one raises where there is none
            return sending
        try:
            sent = asyncio.run_coroutine_threadsafe(sending, self._loop)
        except RuntimeError as error:
            sending.close()
            raise EventNotSentError(declared.id, "what ran its call is closed.", accepted=False) from error
        sent.result()
        return TURN

    def _emitted(self, event: Event, data: Any) -> EmittedEvent:
        call = self._call
        return EmittedEvent(
            data=checked(event, data, call.action_id),
            id=derived_event_id(call.call_id, call.generation, next(self._ordinals)),
            provider_id=call.provider_id,
            event_id=event.id,
            call_id=call.call_id,
            at=instant_to_datetime(self._clock()),
            user_id=call.user_id,
        )


def checked(event: Event, data: Any, action_id: str) -> Any:
    """Turn a value, or plain JSON data for one, into plain JSON data that fits the event. Raises EventInvalidError."""
    try:
        told = event.shape.dump(event.shape.accept(data))
        ensure_size(told)
    except MismatchError as error:
        issues = [replace(issue, path=(event.id, *issue.path)) for issue in error.issues]
        raise EventInvalidError(action_id, issues) from error
    except PayloadTooLargeError as error:
        raise EventInvalidError(action_id, [Issue((event.id,), "too_large", error.message)]) from error
    return told
