"""One publish on its way, the errors in which it may end, and what the broker's refusal of one means.

The broker closes the channel of a publish that it never takes: who may not write there, an exchange that is not there,
a message over its limit. Nothing but its text tells which of the publishes on that channel it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    PublishForbiddenError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.topology import Route

MESSAGE_OVERHEAD = 512
"""What a publish counts against the budget besides its body: frames, properties and our own book-keeping."""
_REFUSALS = ("ACCESS_REFUSED", "NOT_FOUND", "PRECONDITION_FAILED")
_TOPIC = re.compile(r"access to topic '(.*)' in exchange '(.*)' in vhost ", re.DOTALL)
_EXCHANGE = re.compile(r"(?:access to|no) exchange '(.*)' in vhost ", re.DOTALL)
_SIZE = re.compile(r"message size (\d+) is larger")
_DEFAULT_EXCHANGE = "amq.default"


class Publish:
    __slots__ = ("deadline", "future", "message", "route", "size", "written")

    def __init__(
        self,
        future: asyncio.Future[None],
        route: Route,
        message: Message,
        deadline: float,
        written: Callable[[], None] | None,
    ) -> None:
        self.future = future
        self.route = route
        self.message: Message | None = message
        self.deadline = deadline
        self.written = written
        self.size = len(message.body) + MESSAGE_OVERHEAD

    def wrote(self) -> None:
        """Note that it is written, and say so."""
        self.message = None
        if self.written is not None:
            self.written()

    def settle(self, address: Address, *, accepted: bool) -> None:
        """End with the broker's confirm."""
        if self.future.done():
            return
        if accepted:
            self.future.set_result(None)
        else:
            self.future.set_exception(
                PublishRefusedError(
                    f"The broker at {address} refused the message: a queue is full, or has no leader now."
                )
            )

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def returned(self, reason: str) -> None:
        self.fail(UnroutableError(f"No queue takes what is published to {_place(self.route)} ({reason})."))

    def forbidden(self, address: Address, reason: str) -> None:
        if reason.startswith("NOT_FOUND"):
            self.returned(reason)
            return
        verb = "let this user publish" if reason.startswith("ACCESS_REFUSED") else "take what is published"
        text = f"The broker at {address} does not {verb} to {_place(self.route)}: {reason}"
        self.fail(PublishForbiddenError(text))

    def unsure(self, address: Address, reason: str) -> None:
        self.fail(PublishUnsureError(f"The channel to {address} ended before a message was confirmed: {reason}"))

    def closed(self) -> None:
        self.fail(TransportClosedError("The transport was closed before this was written."))


class Refusal:
    """What the broker says with the end of a channel, where it refuses a publish for good."""

    def __init__(self, reason: str) -> None:
        topic, exchange, size = _TOPIC.search(reason), _EXCHANGE.search(reason), _SIZE.search(reason)
        self._size = int(size[1]) if size else None
        self._routing_key = topic[1] if topic else None
        name = topic[2] if topic else exchange[1] if exchange else None
        self._exchange = "" if name == _DEFAULT_EXCHANGE else name

    @classmethod
    def read(cls, reason: str) -> Refusal | None:
        """Return None for the end of a channel or a connection that is no refusal."""
        return cls(reason) if reason.startswith(_REFUSALS) else None

    @property
    def of_message(self) -> bool:
        """Whether it is the message that is refused, and another one to the same route may pass."""
        return self._size is not None

    def may_be_of(self, publish: Publish) -> bool:
        """Whether the text fits this publish. A text that names nothing (it may be cut short) fits all."""
        if self._size is not None:
            return self._size == publish.size - MESSAGE_OVERHEAD
        return self._exchange in (None, publish.route.exchange) and self._routing_key in (
            None,
            publish.route.routing_key,
        )


def end_with_channel(pending: list[Publish], address: Address, reason: str) -> set[Route]:
    """End what is pending, in the order of writing, on a channel that is gone. Returns the routes that may be refused.

    The broker takes nothing on a channel after what it refused there. So of several that it may have been, the last
    was not accepted in any case, and those before it may have been.
    """
    refusal = Refusal.read(reason)
    suspects = [publish for publish in pending if refusal is not None and refusal.may_be_of(publish)]
    routes = {publish.route for publish in suspects}
    if suspects and refusal is not None and (len(routes) == 1 or refusal.of_message):
        suspects[-1].forbidden(address, reason)
    for publish in pending:
        publish.unsure(address, reason)
    return routes


def _place(route: Route) -> str:
    return f"exchange {route.exchange!r} with key {route.routing_key!r}"
