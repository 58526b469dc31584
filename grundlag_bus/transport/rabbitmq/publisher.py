"""Publishes on one channel, one after the other, and knows the fate of each.

A publish is in one of three places:

    waiting     nothing of it was written: no connection, the broker blocks, the socket is full, the budget is spent,
                or its route is being tried
    pending     written, not confirmed; its bytes count against the budget
    done        confirmed, refused, returned, or given up by its publisher

waiting ones move on in their order. A publisher that gives up (deadline, cancellation) takes a waiting publish with it,
which then was never written; a pending one stays pending for the budget's sake until the broker confirms it.

The first publish to a route is tried on another channel (`trials`). Of a permission that is revoked later the broker
may take notice at any time: then all that is pending beside is unsure.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from grundlag_bus.errors import PublishExpiredError, PublishUnsureError, TransportClosedError
from grundlag_bus.transport.rabbitmq import frames
from grundlag_bus.transport.rabbitmq.publish import Publish, end_with_channel
from grundlag_bus.transport.rabbitmq.trials import Trials
from grundlag_bus.transport.rabbitmq.wire import Taker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.rabbitmq.wire import Wire
    from grundlag_bus.transport.topology import Route

_ROUTES_KEPT = 4096
_LONGEST_SLEEP = 5.0
"""Seconds after which deadlines are looked at again anyway: they are by the wall clock, which may be set."""
_IDLE = float("inf")


class Publisher(Taker):
    """Publishes over whichever channel it is attached to; outlives the channels.

    byte_budget: bytes that may be written and not yet confirmed. A larger message goes when nothing else is pending.
    lost_channel: called when the broker closes the channel, so that somebody attaches another.
    told: called with the reason when the broker takes no more publishes, and with None when it does again.
    """

    def __init__(
        self,
        address: Address,
        *,
        byte_budget: int,
        lost_channel: Callable[[], None],
        told: Callable[[str | None], None],
    ) -> None:
        self._address = address
        self._lost_channel = lost_channel
        self._told = told
        self._budget = byte_budget
        self._loop = asyncio.get_running_loop()
        self._wire: Wire | None = None
        self._channel = 0
        self._body_limit = 0
        self._sequence = 0
        self._prefix = b""
        self._methods: dict[Route, bytes] = {}
        self._known: set[Route] = set()
        self._trials = Trials(address, known=self._known.add, released=self._release, again=self._again)
        self._ready = False
        self._blocked: str | None = None
        self._closed = False
        self._down: str | None = "not connected yet"
        self._waiting: OrderedDict[Publish, None] = OrderedDict()
        self._pending: dict[int, Publish] = {}
        self._oldest = 1
        self._used = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = _IDLE

    @property
    def unconfirmed_bytes(self) -> int:
        """What counts against the budget now."""
        return self._used

    @property
    def outstanding(self) -> int:
        """How many publishes are waiting or pending."""
        return len(self._waiting) + len(self._pending) + len(self._trials.held) + len(self._trials.pending)

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        """See `Transport.publish`."""
        if self._closed:
            raise TransportClosedError("The transport was closed: nothing was published.")
        publish = Publish(self._loop.create_future(), route, message, deadline, written)
        if deadline <= time.time():
            await asyncio.sleep(0)  # who tries again at once must not hold up the loop
            raise self._too_late()
        if self._ready and not self._waiting and self._fits(publish):
            self._write(publish)
        else:
            self._waiting[publish] = None
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        try:
            await publish.future
        except asyncio.CancelledError:
            if not self._trials.drop(publish) and self._waiting.pop(publish, publish) is None:
                self._pump()  # it may have been the first, and too large for what is free
            raise

    # --- the channel --------------------------------------------------------------------------------------------------

    def attach(self, wire: Wire, channel: int, frame_max: int, open_channel: Callable[[Taker], Awaitable[int]]) -> None:
        """Publish on this channel from now on, what waits first. The channel is in confirm mode and was not used.

        open_channel: opens another one such on the same connection and returns its number.
        """
        self._wire, self._channel = wire, channel
        self._body_limit = frame_max - frames.OVERHEAD
        self._sequence, self._oldest = 0, 1
        self._prefix = os.urandom(6).hex().encode()
        self._methods.clear()
        self._trials.attach(wire, self._body_limit, open_channel)
        self._blocked = wire.blocked
        self._told(wire.blocked)
        self._down = None
        self._consider()

    def closed(self, reason: str) -> None:
        """End what is pending: nobody will tell whether it arrived. What waits keeps waiting."""
        if self._wire is None:
            return
        self._wire = None
        self._down = reason
        self._ready = False
        pending, self._pending = list(self._pending.values()), {}
        self._used -= sum(publish.size for publish in pending)
        self._known -= end_with_channel(pending, self._address, reason)
        if not self._closed:
            self._lost_channel()

    def blocked(self, reason: str | None) -> None:
        self._blocked = reason
        self._told(reason)
        self._consider()

    def writable(self) -> None:
        self._consider()

    def close(self) -> None:
        """Refuse new publishes and end all others. Idempotent."""
        self._closed = True
        self._ready = False
        self.closed("the transport was closed")
        self._trials.close()
        waiting, self._waiting = self._waiting, OrderedDict()
        for publish in waiting:
            publish.closed()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # --- writing ------------------------------------------------------------------------------------------------------

    def _consider(self) -> None:
        wire = self._wire
        self._ready = wire is not None and self._blocked is None and not wire.full and not self._closed
        self._pump()

    def _fits(self, publish: Publish) -> bool:
        return self._used + publish.size <= self._budget or not self._used

    def _pump(self) -> None:
        waiting = self._waiting
        while waiting and self._ready:
            publish = next(iter(waiting))
            if not self._fits(publish):
                return
            del waiting[publish]
            self._write(publish)

    def _write(self, publish: Publish) -> None:
        wire, message = self._wire, publish.message
        assert wire is not None  # noqa: S101  ready means attached
        assert message is not None  # noqa: S101  written once
        sequence = self._sequence + 1
        try:
            method = self._methods.get(publish.route) or self._method(publish.route)
            if method is None:
                if self._trials.add(publish):
                    self._used += publish.size
                return
            message_id = b"%b-%d" % (self._prefix, sequence)
            content = frames.publish_content(self._channel, message, message_id, self._body_limit)
        except ValueError as error:  # a text that AMQP cannot carry: the publisher's own mistake, nobody else's
            publish.fail(error)
            return
        self._sequence = sequence
        self._pending[sequence] = publish
        self._used += publish.size
        wire.send(method + content)
        publish.wrote()
        if wire.full:
            self._ready = False

    def _method(self, route: Route) -> bytes | None:
        """Return None for a route that has to be tried first."""
        if route not in self._known:
            return None
        if len(self._known) > _ROUTES_KEPT:
            self._methods.clear()
            self._known.clear()
            self._known.add(route)
        method = self._methods[route] = frames.publish_method(self._channel, route)
        return method

    def _again(self, publishes: Iterable[Publish]) -> None:
        """Write these before all others, in their order."""
        for publish in reversed(list(publishes)):
            self._waiting[publish] = None
            self._waiting.move_to_end(publish, last=False)
        self._loop.call_soon(self._pump)

    def _release(self, size: int) -> None:
        self._used -= size
        self._loop.call_soon(self._pump)

    # --- what the broker says -----------------------------------------------------------------------------------------

    def confirmed(self, tag: int, *, multiple: bool, accepted: bool) -> None:
        pending = self._pending
        if multiple:
            for sequence in range(self._oldest, tag):
                if sequence in pending:
                    self._settle(pending.pop(sequence), accepted=accepted)
            self._oldest = tag + 1
        if tag in pending:
            self._settle(pending.pop(tag), accepted=accepted)
        if self._waiting:
            self._pump()

    def returned(self, message_id: str | None, reason: str) -> None:
        prefix, _, number = (message_id or "").partition("-")
        if prefix.encode() != self._prefix or not number.isdigit():
            return
        publish = self._pending.get(int(number))
        if publish is not None:
            publish.returned(reason)

    def _settle(self, publish: Publish, *, accepted: bool) -> None:
        self._used -= publish.size
        publish.settle(self._address, accepted=accepted)

    # --- deadlines ----------------------------------------------------------------------------------------------------

    def _set_alarm(self, deadline: float) -> None:
        # One timer for all: set for the nearest deadline, and set anew when it rings. Most publishes are confirmed long
        # before theirs and never touch it.
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        pause = min(max(deadline - time.time(), 0), _LONGEST_SLEEP)
        self._alarm = self._loop.call_later(pause, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, _IDLE
        now, nearest = time.time(), _IDLE
        trials = self._trials
        for publish in [*self._waiting, *trials.held, *self._pending.values(), *trials.pending]:
            if publish.deadline > now:
                nearest = min(nearest, publish.deadline)
            elif publish in self._waiting:
                del self._waiting[publish]
                publish.fail(self._too_late())
            elif trials.drop(publish):
                publish.fail(self._too_late())
            else:
                publish.fail(
                    PublishUnsureError(f"The broker at {self._address} did not confirm a message by its deadline.")
                )
                trials.overdue(publish)
        self._pump()
        if nearest < self._alarm_at:
            self._set_alarm(nearest)

    def _too_late(self) -> PublishExpiredError:
        if self._down is not None:
            why = f"there is no connection ({self._down})"
        elif self._blocked is not None:
            why = f"the broker blocks publishers ({self._blocked})"
        elif self._waiting:
            why = "too much before it is not confirmed"
        else:
            why = "the deadline had passed"
        return PublishExpiredError(f"Nothing was published to {self._address} by the deadline: {why}.")
