"""Queues that somebody deletes, so that the broker cancels whoever consumes from them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults.fault import Fault, NothingToBefallError, chosen, whole
from grundlag_bus.chaos.field import QUEUE_DELETION
from grundlag_bus.chaos.history import SUFFIX, Mailbox, read
from grundlag_bus.chaos.provider import FREE, KEPT
from grundlag_bus.chaos.remains import open_administration
from grundlag_bus.chaos.schedule import Kind
from grundlag_bus.transport.parts import Queue
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grundlag_bus.chaos.faults.fault import Ground

_QUEUES = tuple((provider, lane) for provider in (FREE, KEPT) for lane in ("main", "long"))


@asynccontextmanager
async def _call_queue_deleted(ground: Ground, choice: int) -> AsyncIterator[str]:
    provider, lane = chosen(_QUEUES, choice)
    queue = Topology(ground.field.namespace).call_queue(provider, lane)
    await whole(_delete(ground.field.url, queue.name))
    yield queue.name


@asynccontextmanager
async def _mailbox_deleted(ground: Ground, choice: int) -> AsyncIterator[str]:
    callers = [each.name for each in ground.field.victims() if each.role == "caller" and each.pid is not None]
    name = await asyncio.to_thread(_mailbox, ground.folder, chosen(callers, choice))
    await whole(_delete(ground.field.url, name))
    yield name


def _mailbox(folder: Path, caller: str) -> str:
    """Find where replies come to in the last life of a caller."""
    lives = sorted(folder.glob(f"{caller}.*{SUFFIX}"), key=lambda file: int(file.name.split(".")[-2]))
    for record in read(chosen(lives, -1)):
        if isinstance(record, Mailbox):
            return record.queue
    raise NothingToBefallError


async def _delete(url: str, queue: str) -> None:
    bus = await open_administration(url)
    try:
        await bus.delete(Queue(queue, (), {}))
    finally:
        await bus.close()


FAULTS = (
    Fault(Kind(QUEUE_DELETION), _call_queue_deleted),
    Fault(Kind("mailbox-deletion"), _mailbox_deleted),
)
