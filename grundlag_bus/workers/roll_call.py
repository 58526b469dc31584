"""Ask every worker of a namespace how it stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    BusUnreachableError,
    EnvelopeError,
    PublishExpiredError,
    PublishUnsureError,
    UnroutableError,
)
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.status import WorkerStatus, decode_status

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Delivery, Transport

_PREFETCH = 1000


async def roll_call(transport: Transport, *, within: float = 1.0) -> list[WorkerStatus]:
    """Return what the workers say within that many seconds, by name: a worker whose loop is blocked says nothing.

    The transport is open. Raises as `Transport.subscribe` and `Transport.publish` do, and BusUnreachableError where the
    broker takes no question.
    """
    told: dict[str, WorkerStatus] = {}

    def receive(delivery: Delivery) -> None:
        delivery.ack()
        try:
            status = decode_status(delivery.message.body)
        except EnvelopeError:
            return
        told[status.name] = status

    mailbox = new_call_id()
    topology = transport.topology
    subscription = await transport.subscribe(topology.mailbox(mailbox), receive, prefetch=_PREFETCH)
    try:
        message = Message(b"", "ping", reply_to=mailbox)
        await transport.publish(topology.control_route("ping"), message, deadline=transport.now() + within)
        await asyncio.sleep(within)
    except UnroutableError:
        return []
    except (PublishExpiredError, PublishUnsureError):
        if not transport.state.blocked:
            raise
    finally:
        await subscription.close()
    if not told and transport.state.blocked:
        raise BusUnreachableError(
            "The broker takes no messages (it is short of memory or disk), so that no worker can be asked or answer: "
            "free some; `grundlag-bus doctor` names the alarm."
        )
    return [told[name] for name in sorted(told)]
