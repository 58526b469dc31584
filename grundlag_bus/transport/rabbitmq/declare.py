"""Declares exchanges, queues and streams, and says what is different where one exists otherwise."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from aiormq.exceptions import (
    AMQPChannelError,
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)

from grundlag_bus.errors import BusUnreachableError, TopologyMismatchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiormq.abc import AbstractChannel

    from grundlag_bus.transport.rabbitmq.connection import Connection
    from grundlag_bus.transport.topology import Exchange, Ladder, Queue, Stream, Topology

_TYPED = re.compile(r"the value '(.*)' of type '[^']*'")
_DIFFERENCE = re.compile(r"inequivalent arg '([^']*)' for .*: received (.*) but current is (.*)", re.DOTALL)


async def declare_topology(connection: Connection, topology: Topology) -> None:
    """Declare the exchanges and the dead queue. Who may not declare relies on those who may."""
    for exchange in topology.exchanges:
        await _if_allowed(connection, partial(_declare_exchange, exchange=exchange))
    await _if_allowed(connection, partial(declare_queue, queue=topology.dead_queue))


async def declare_ladder(connection: Connection, ladder: Ladder) -> None:
    """Declare what delayed routes need. Who may not declare relies on those who may.

    Raises TopologyMismatchError, BusUnreachableError.
    """
    await _if_allowed(connection, partial(_declare_ladder, ladder=ladder))


async def declare_queue(connection: Connection, channel: AbstractChannel, queue: Queue) -> None:
    """Declare a queue and its bindings. Raises TopologyMismatchError, BusUnreachableError."""
    await _declare(connection, channel, queue)
    try:
        for binding in queue.bindings:
            await connection.ask(channel.queue_bind(queue.name, binding.exchange.name, binding.routing_key))
    except AMQPChannelError as error:
        raise refused("queue", queue.name, error) from error


async def declare_stream(connection: Connection, channel: AbstractChannel, stream: Stream) -> None:
    await _declare(connection, channel, stream)


async def exists(connection: Connection, name: str) -> bool:
    """Ask whether there is a queue or stream of this name. Raises BusUnreachableError.

    Asked on a channel of its own, since the broker closes the channel of a question whose answer is no.
    """
    channel = await connection.channel()
    try:
        await connection.ask(channel.queue_declare(name, passive=True))
    except ChannelNotFoundEntity:
        return False
    except ChannelAccessRefused:
        return True  # who may not ask may not declare either
    except AMQPChannelError as error:
        raise refused("queue", name, error) from error
    else:
        return True
    finally:
        await connection.close_channel(channel)


async def _if_allowed(
    connection: Connection, declare: Callable[[Connection, AbstractChannel], Awaitable[None]]
) -> None:
    channel = await connection.channel()
    try:
        await declare(connection, channel)
    except BusUnreachableError as error:
        if not isinstance(error.__cause__, ChannelAccessRefused):
            raise
    finally:
        await connection.close_channel(channel)


async def _declare_exchange(connection: Connection, channel: AbstractChannel, exchange: Exchange) -> None:
    arguments: Any = None if exchange.alternate is None else {"alternate-exchange": exchange.alternate}
    try:
        await connection.ask(
            channel.exchange_declare(exchange.name, exchange_type=exchange.kind, durable=True, arguments=arguments)
        )
    except AMQPChannelError as error:
        raise refused("exchange", exchange.name, error) from error


async def _declare_ladder(connection: Connection, channel: AbstractChannel, ladder: Ladder) -> None:
    for exchange in ladder.exchanges:
        await _declare_exchange(connection, channel, exchange)
    for queue in ladder.queues:
        await declare_queue(connection, channel, queue)
    for bridge in ladder.bridges:
        source, target = bridge.binding.exchange.name, bridge.target.name
        try:
            await connection.ask(channel.exchange_bind(target, source, bridge.binding.routing_key))
        except AMQPChannelError as error:
            raise refused("exchange", target, error) from error


async def _declare(connection: Connection, channel: AbstractChannel, queue: Queue | Stream) -> None:
    try:
        await connection.ask(channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments)))
    except AMQPChannelError as error:
        raise refused("queue", queue.name, error) from error


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
