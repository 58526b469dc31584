"""Declares exchanges, queues and streams, and says what is different where one exists otherwise."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiormq.exceptions import (
    AMQPChannelError,
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)

from grundlag_bus.errors import BusUnreachableError, TopologyMismatchError
from grundlag_bus.transport.administration import Counts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable

    from aio_pika.abc import AbstractChannel

    from grundlag_bus.transport.parts import Bridge
    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.topology import Exchange, Ladder, Queue, Stream, Topology

_TYPED = re.compile(r"the value '(.*)' of type '[^']*'")
_DIFFERENCE = re.compile(r"inequivalent arg '([^']*)' for .*: received (.*) but current is (.*)", re.DOTALL)


async def declare_topology(connection: Connection, topology: Topology) -> None:
    """Declare the exchanges and the dead queue. Who may not declare relies on those who may."""
    for exchange in topology.exchanges:
        await _if_allowed(declare_exchange(connection, exchange))
    await _if_allowed(declare_queue(connection, topology.dead_queue))


async def declare_exchange(connection: Connection, exchange: Exchange) -> None:
    """Declare an exchange. Raises TopologyMismatchError, BusUnreachableError."""
    arguments: Any = None if exchange.alternate is None else {"alternate-exchange": exchange.alternate}
    async with _asked(connection, "exchange", exchange.name) as channel:
        await connection.ask(channel.declare_exchange(exchange.name, exchange.kind, durable=True, arguments=arguments))


async def declare_queue(connection: Connection, queue: Queue) -> None:
    """Declare a queue and its bindings. Raises TopologyMismatchError, BusUnreachableError."""
    async with _asked(connection, "queue", queue.name) as channel:
        arguments = dict(queue.arguments)
        declared = await connection.ask(channel.declare_queue(queue.name, durable=True, arguments=arguments))
        for binding in queue.bindings:
            await connection.ask(declared.bind(binding.exchange.name, binding.routing_key))


async def declare_ladder(connection: Connection, ladder: Ladder) -> None:
    """Declare what delayed routes need. Who may not declare relies on those who may.

    Raises TopologyMismatchError, BusUnreachableError.
    """
    await _if_allowed(_declare_ladder(connection, ladder))


async def _declare_ladder(connection: Connection, ladder: Ladder) -> None:
    await _all(declare_exchange(connection, exchange) for exchange in ladder.exchanges)
    await _all(
        [
            *(declare_queue(connection, queue) for queue in ladder.queues),
            *(_declare_bridge(connection, bridge) for bridge in ladder.bridges),
        ]
    )


async def _declare_bridge(connection: Connection, bridge: Bridge) -> None:
    async with _asked(connection, "exchange", bridge.target.name) as channel:
        target = await channel.get_exchange(bridge.target.name, ensure=False)
        await connection.ask(target.bind(bridge.binding.exchange.name, bridge.binding.routing_key))


async def _all(declarations: Iterable[Coroutine[None, None, None]]) -> None:
    """Declare all at once: one after the other they take two hundred answers of a broker that may be far or busy.

    Raises the error of the first that was refused.
    """
    declaring = [asyncio.ensure_future(declaration) for declaration in declarations]
    try:
        await asyncio.gather(*declaring)
    finally:
        for each in declaring:
            each.cancel()
        await asyncio.gather(*declaring, return_exceptions=True)


async def bind_queue(connection: Connection, queue: Queue | Stream) -> None:
    """Bind a queue or stream that is there. Raises BusUnreachableError."""
    async with _asked(connection, "queue", queue.name) as channel:
        declared = await channel.get_queue(queue.name, ensure=False)
        for binding in queue.bindings:
            await connection.ask(declared.bind(binding.exchange.name, binding.routing_key))


async def delete_queue(connection: Connection, name: str) -> None:
    """Delete a queue that nothing consumes, with what is in it; one that is not there is no error.

    Raises BusUnreachableError.
    """
    async with _asked(connection, "queue", name) as channel:
        await connection.ask(channel.queue_delete(name, if_unused=True))


async def declare_stream(connection: Connection, stream: Stream) -> None:
    """Declare a stream, without its bindings. Raises TopologyMismatchError, BusUnreachableError."""
    async with _asked(connection, "stream", stream.name) as channel:
        await connection.ask(channel.declare_queue(stream.name, durable=True, arguments=dict(stream.arguments)))


async def bind_stream(connection: Connection, stream: Stream) -> None:
    """Bind a stream that is there. Who may not bind relies on those who may. Raises BusUnreachableError."""
    if stream.bindings:
        await _if_allowed(bind_queue(connection, stream))


async def exists(connection: Connection, name: str) -> bool:
    """Ask whether there is a queue or stream of this name. Raises BusUnreachableError."""
    try:
        return await counted(connection, name) is not None
    except BusUnreachableError as error:
        if isinstance(error.__cause__, ChannelAccessRefused):
            return True  # who may not ask may not declare either
        raise


async def exchange_exists(connection: Connection, name: str) -> bool:
    """Ask whether there is an exchange of this name. Raises BusUnreachableError."""
    try:
        async with _asked(connection, "exchange", name) as channel:
            await connection.ask(channel.declare_exchange(name, passive=True))
    except BusUnreachableError as error:
        if isinstance(error.__cause__, ChannelNotFoundEntity):
            return False
        raise
    return True


async def counted(connection: Connection, name: str) -> Counts | None:
    """Count what waits in a queue or stream; None where there is none of this name. Raises BusUnreachableError."""
    try:
        async with _asked(connection, "queue", name) as channel:
            declared = (await connection.ask(channel.declare_queue(name, passive=True))).declaration_result
    except BusUnreachableError as error:
        if isinstance(error.__cause__, ChannelNotFoundEntity):
            return None
        raise
    return Counts(declared.message_count or 0, declared.consumer_count or 0)


@asynccontextmanager
async def _asked(connection: Connection, kind: str, name: str) -> AsyncIterator[AbstractChannel]:
    async with connection.declaring() as channel:
        try:
            yield channel
        except AMQPChannelError as error:
            raise refused(kind, name, error) from error


async def _if_allowed(declaration: Awaitable[None]) -> None:
    try:
        await declaration
    except BusUnreachableError as error:
        if not isinstance(error.__cause__, ChannelAccessRefused):
            raise


def refused(kind: str, name: str, error: AMQPChannelError) -> TopologyMismatchError | BusUnreachableError:
    """Say what the broker's refusal of an exchange, queue or stream means."""
    text = str(error)
    if isinstance(error, ChannelPreconditionFailed):
        found = _DIFFERENCE.search(text)
        if found is None:
            return TopologyMismatchError(f"The broker does not declare the {kind} {name}: {text}")
        argument, *values = found.groups()
        wanted, current = (_TYPED.sub(r"'\1'", value) for value in values)
        return TopologyMismatchError(
            f"The {kind} {name} exists on the broker with {argument} = {current}, and this version declares {wanted}: "
            f"delete that {kind} once it is drained, or use another namespace."
        )
    if isinstance(error, ChannelAccessRefused):
        return BusUnreachableError(f"The broker does not let this user declare or use the {kind} {name}: {text}")
    return BusUnreachableError(f"The broker does not give the {kind} {name}: {text}")
