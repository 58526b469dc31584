"""What is left when everything has come to rest: in queues, mailboxes, delay ladder, and the ledger's tables."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grundlag_bus.chaos.database import read_effects, read_rows
from grundlag_bus.chaos.provider import FREE, KEPT
from grundlag_bus.errors import BusUnreachableError, EnvelopeError
from grundlag_bus.schema.dead_letter import read_dead_letter
from grundlag_bus.schema.envelope import decode_reply
from grundlag_bus.transport.parts import Queue
from grundlag_bus.transport.rabbitmq import RabbitAdministration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from grundlag_bus.store.store import Store
    from grundlag_bus.transport.topology import Topology

_LOOKED_EVERY = 0.5
_TRIES = 20
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Remains:
    """waiting: messages by queue; letters: the codes of dead letters, by call; late: calls whose replies nobody took.

    rows: of the ledger, by phase; stored: the fences of the effects in its database, by call.
    """

    waiting: dict[str, int] = field(default_factory=dict)
    letters: dict[str, list[str]] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    stored: dict[str, list[int]] = field(default_factory=dict)


def _working(topology: Topology) -> list[Queue]:
    lanes = [topology.call_queue(provider, lane) for provider in (FREE, KEPT) for lane in ("main", "long")]
    return [*lanes, *topology.ladder.queues]


async def open_administration(url: str) -> RabbitAdministration:
    """Connect, also to a broker that is just coming back. Raises BusUnreachableError."""
    for _ in range(_TRIES):
        try:
            return await RabbitAdministration.open(url)
        except BusUnreachableError:
            await asyncio.sleep(_LOOKED_EVERY)
    return await RabbitAdministration.open(url)


async def until_empty(url: str, topology: Topology, *, within: float) -> None:
    """Return when no call waits anywhere, or the time is over. Raises BusUnreachableError."""
    bus = await open_administration(url)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while await _waiting(bus, topology):  # noqa: ASYNC110  a broker tells nobody that a queue is empty
                    await asyncio.sleep(_LOOKED_EVERY)
    finally:
        await bus.close()


async def take_remains(url: str, topology: Topology, mailboxes: Sequence[str], store: Store) -> Remains:
    """Look everywhere, and take out dead letters and replies. Raises BusUnreachableError, StoreAwayError."""
    bus = await open_administration(url)
    try:
        waiting = await _waiting(bus, topology)
        letters: dict[str, list[str]] = {}
        async for body in _taken(bus, topology.dead_queue.name):
            letter = read_dead_letter(body)
            letters.setdefault(letter.id, []).append(letter.reason.code)
        late = [reply_to async for reply_to in _late(bus, mailboxes)]
    finally:
        await bus.close()
    stored: dict[str, list[int]] = {}
    for call_id, fence in await read_effects(store):
        stored.setdefault(call_id, []).append(fence)
    return Remains(waiting, letters, tuple(late), await read_rows(store, KEPT), stored)


async def remove(url: str, topology: Topology, mailboxes: Iterable[str]) -> None:
    """Delete the namespace. Raises BusUnreachableError."""
    bus = await open_administration(url)
    try:
        await bus.delete(topology.calls)
        for queue in (*_working(topology), *(Queue(name, (), {}) for name in mailboxes)):
            await bus.delete(queue)
        for exchange in (*topology.exchanges, *topology.ladder.exchanges):
            await bus.delete(exchange)
        for part in (topology.cancels, topology.starts, topology.manifests, topology.dead_queue):
            await bus.delete(part)
    finally:
        await bus.close()


async def _waiting(bus: RabbitAdministration, topology: Topology) -> dict[str, int]:
    counts = {queue.name: await bus.count(queue.name) for queue in _working(topology)}
    return {name: count.messages for name, count in counts.items() if count is not None and count.messages}


async def _taken(bus: RabbitAdministration, queue: str) -> AsyncIterator[bytes]:
    """Take everything out of a queue."""
    while held := await bus.take(queue, _AT_ONCE):
        for each in held:
            yield each.message.body
            await each.hold.ack()


async def _late(bus: RabbitAdministration, mailboxes: Sequence[str]) -> AsyncIterator[str]:
    for mailbox in mailboxes:
        async for body in _taken(bus, mailbox):
            try:
                yield decode_reply(body).call_id
            except EnvelopeError:  # progress
                continue
