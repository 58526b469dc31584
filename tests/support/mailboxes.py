"""A caller that sends envelopes as they are, as often as a test wants, and reads what is replied."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from grundlag_bus import Call, Request
from grundlag_bus.schema.envelope import decode_reply, encode_call, new_call_id
from grundlag_bus.transport import Message
from tests.support.eventually import eventually
from tests.support.transports import Inbox, in_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus import Reply, Transport
    from tests.support.hosts import Host


def call_of(action_id: str, input: Any = None, **fields: Any) -> Call:  # noqa: A002  the wire's word
    """Make a call of the contract provider."""
    now = time.time()
    given = {"call_id": new_call_id(), "deadline": now + 60, "sent_at": now, **fields}
    return Call(provider_id="contract", action_id=action_id, request=Request({} if input is None else input), **given)


class Mailbox:
    """Made by `mailbox`."""

    def __init__(self, transport: Transport, inbox: Inbox) -> None:
        self.name = new_call_id()
        self._transport = transport
        self._inbox = inbox

    async def open(self) -> None:
        await self._transport.open()
        await self._transport.subscribe(self._transport.topology.mailbox(self.name), self._inbox, prefetch=1000)

    async def send(self, call: Call, *, waits: bool = True) -> None:
        """Send it. waits: whether it is to be replied to."""
        route = self._transport.topology.call_route(call.provider_id, call.lane)
        message = Message(encode_call(call), "call", correlation_id=call.call_id, reply_to=self.name if waits else None)
        await self._transport.publish(route, message, deadline=in_time())

    async def replies(self, count: int = 1, *, within: float = 15) -> list[Reply]:
        """Wait for so many replies in all; progress is left out."""

        def read() -> list[Reply]:
            return [decode_reply(each.message.body) for each in self._inbox.deliveries if each.message.type == "reply"]

        await eventually(lambda: len(read()) >= count, within=within)
        return read()

    async def ask(self, call: Call) -> Reply:
        """Send a call, and return the reply to this sending."""
        before = len([each for each in self._inbox.deliveries if each.message.type == "reply"])
        await self.send(call)
        return (await self.replies(before + 1))[-1]


@asynccontextmanager
async def mailbox(host: Host) -> AsyncIterator[Mailbox]:
    """Open a mailbox of its own on the host's bus."""
    transport = host.transport()
    opened = Mailbox(transport, Inbox(ack=True))
    try:
        await opened.open()
        yield opened
    finally:
        await transport.close()
