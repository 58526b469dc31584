"""First publishes to routes, each alone on a channel of its own.

The broker closes the channel of a publish that it does not allow, and with it the fate of all others there is unknown.
So the first to a route goes over a scratch channel, and those that follow to the same route are held until it is
confirmed: then the route has passed, and its publishes go over the publisher's channel. A refused one costs the scratch
channel alone; any other is kept and used again. Permissions that are revoked later are beyond this.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.publish import Publish, Refusal
from grundlag_bus.transport.rabbitmq.wire import Taker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.rabbitmq.wire import Wire
    from grundlag_bus.transport.topology import Route

_log = get_logger(__name__)
_CHANNELS = 32
"""How many routes are tried at once."""


class Scratch(Taker):
    """A channel in confirm mode with one publish at a time."""

    def __init__(self, trials: Trials, wire: Wire, body_limit: int) -> None:
        self._trials = trials
        self._body_limit = body_limit
        self._prefix = os.urandom(6).hex().encode()
        self._sequence = 0
        self.wire = wire
        self.number = 0
        self.gone = False
        self.late = False
        self.publish: Publish | None = None

    def write(self, publish: Publish) -> None:
        """Raise ValueError for a text that AMQP cannot carry."""
        assert publish.message is not None  # noqa: S101  written once
        method = frames.publish_method(self.number, publish.route)
        message_id = b"%b-%d" % (self._prefix, self._sequence + 1)
        content = frames.publish_content(self.number, publish.message, message_id, self._body_limit)
        self._sequence += 1
        self.publish = publish
        self.wire.send(method + content)
        publish.wrote()

    def returned(self, message_id: str | None, reason: str) -> None:  # noqa: ARG002  there is one
        if self.publish is not None:
            self.publish.returned(reason)

    def confirmed(self, tag: int, *, multiple: bool, accepted: bool) -> None:  # noqa: ARG002  there is one
        publish, self.publish = self.publish, None
        if publish is not None:
            self._trials.passed(self, publish, accepted=accepted)

    def closed(self, reason: str) -> None:
        self.gone = True
        publish, self.publish = self.publish, None
        self._trials.ended(self, publish, reason)


class Trials:
    """The routes that are being tried or wait for a scratch channel, with what is held for them.

    known: called with a route that needs no trial any more. released: called with the bytes that count no more.
    again: called with publishes that are to be written before all others.
    """

    def __init__(
        self,
        address: Address,
        *,
        known: Callable[[Route], None],
        released: Callable[[int], None],
        again: Callable[[Iterable[Publish]], None],
    ) -> None:
        self._address = address
        self._known = known
        self._released = released
        self._again = again
        self._open_channel: Callable[[Taker], Awaitable[int]] | None = None
        self._make: Callable[[], Scratch] | None = None
        self._held: dict[Route, dict[Publish, None]] = {}
        self._unserved: dict[Route, None] = {}
        self._scratches: set[Scratch] = set()
        self._idle: list[Scratch] = []
        self._opener: asyncio.Task[None] | None = None

    @property
    def held(self) -> list[Publish]:
        """What is not written."""
        return [publish for held in self._held.values() for publish in held]

    @property
    def pending(self) -> list[Publish]:
        """What is written and not confirmed."""
        return [scratch.publish for scratch in self._scratches if scratch.publish is not None]

    def attach(self, wire: Wire, body_limit: int, open_channel: Callable[[Taker], Awaitable[int]]) -> None:
        """Open scratch channels in this way from now on."""
        self._open_channel = open_channel
        self._make = lambda: Scratch(self, wire, body_limit)

    def add(self, publish: Publish) -> bool:
        """Write it if it is the first to its route and a channel is there, else hold it. Returns whether it did.

        Raises ValueError for a text that AMQP cannot carry.
        """
        route = publish.route
        held = self._held.get(route)
        if held is not None:
            held[publish] = None
            return False
        if self._idle:
            self._idle[-1].write(publish)
            self._idle.pop()
            self._held[route] = {}
            return True
        self._held[route] = {publish: None}
        self._unserved[route] = None
        self._serve()
        return False

    def drop(self, publish: Publish) -> bool:
        """Forget a publish that its publisher gave up. Returns whether it was held, and so never written."""
        held = self._held.get(publish.route)
        if held is None or publish not in held:
            return False
        del held[publish]
        return True

    def overdue(self, publish: Publish) -> None:
        """Let nobody wait for the confirm of this one any longer: it may never come."""
        for scratch in self._scratches:
            if scratch.publish is publish and not scratch.late:
                scratch.late = True
                self._go_on(publish.route)
                self._serve()

    def close(self) -> None:
        """End all that is here, and open no more channels."""
        for publish in self.held:
            publish.closed()
        self._held, self._unserved = {}, {}
        for scratch in tuple(self._scratches):
            scratch.closed("the transport was closed")
        if self._opener is not None:
            self._opener.cancel()

    # --- how a trial ends ---------------------------------------------------------------------------------------------

    def passed(self, scratch: Scratch, publish: Publish, *, accepted: bool) -> None:
        """Hear the confirm of a first publish. Whether a queue takes it is no matter: it was allowed."""
        self._released(publish.size)
        publish.settle(self._address, accepted=accepted)
        self._known(publish.route)
        if not scratch.late:
            self._go_on(publish.route)
        scratch.late = False
        self._idle.append(scratch)
        self._serve()

    def ended(self, scratch: Scratch, publish: Publish | None, reason: str) -> None:
        """Hear that the channel is gone, by this publish if the broker says so."""
        self._scratches.discard(scratch)
        if scratch in self._idle:
            self._idle.remove(scratch)
        if publish is None:
            return
        self._released(publish.size)
        refusal = Refusal.read(reason)
        if refusal is None:
            publish.unsure(self._address, reason)
        else:
            publish.forbidden(self._address, reason)
            if not refusal.of_message and not scratch.late:
                for each in self._held.get(publish.route, ()):
                    each.forbidden(self._address, reason)
                self._held[publish.route] = {}
        if not scratch.late:
            self._go_on(publish.route)
        self._serve()

    def _go_on(self, route: Route) -> None:
        self._unserved.pop(route, None)
        self._again(self._held.pop(route, ()))

    # --- channels -----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        for route in list(self._unserved)[: len(self._idle)]:
            self._go_on(route)
        if self._opener is None and self._wants_more:
            self._opener = asyncio.create_task(self._open(), name="open scratch channels")

    @property
    def _wants_more(self) -> bool:
        return bool(self._unserved) and sum(not scratch.late for scratch in self._scratches) < _CHANNELS

    async def _open(self) -> None:
        assert self._make is not None  # noqa: S101  attached before anything is added
        assert self._open_channel is not None  # noqa: S101  as above
        try:
            while self._wants_more:
                scratch = self._make()
                try:
                    scratch.number = await self._open_channel(scratch)
                except Exception as error:  # noqa: BLE001  whatever it is, what is held here must go on
                    self._go_on_without(scratch.wire, error)
                    return
                if not scratch.gone:
                    self._scratches.add(scratch)
                    self._idle.append(scratch)
                    self._serve()
        finally:
            self._opener = None

    def _go_on_without(self, wire: Wire, error: Exception) -> None:
        if not wire.lost.done():
            _log.warning("bus.scratch_channel_fails", address=str(self._address), reason=str(error))
        for route in tuple(self._unserved):
            if not wire.lost.done():
                self._known(route)  # better together with others than not at all
            self._go_on(route)
