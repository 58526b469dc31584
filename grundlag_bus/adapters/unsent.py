"""How a call ends whose publish failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    GrundlagError,
    PublishExpiredError,
    PublishForbiddenError,
    PublishUnsureError,
    TopologyMismatchError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools.endings import deadline_exceeded, outcome_unknown

if TYPE_CHECKING:
    from grundlag_bus.adapters.waiting import Waiting
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Transport


def may_be_sent_again(error: GrundlagError, call: Call, *, now: float) -> bool:
    """Say whether to publish a call once more, of which it is unsure whether the broker has it."""
    return isinstance(error, PublishUnsureError) and call.idempotent and now < call.deadline


def expired(waiting: Waiting, transport: Transport) -> Failed:
    """Say that its deadline passed."""
    return deadline_exceeded(waiting.call, published=waiting.published, blocked=transport.state.blocked)


def unsent(error: GrundlagError, waiting: Waiting, transport: Transport) -> Failed:
    """Say how."""
    call, published = waiting.call, waiting.published
    match error:
        case UnroutableError() if waiting.due is None:
            return Failed(
                "provider_unavailable",
                f"No worker of provider {call.provider_id!r} (lane {call.lane!r}) has ever started in namespace "
                f"{transport.topology.namespace!r}: start one with `grundlag-bus worker`.",
                retryable=True,
            )
        case PublishForbiddenError() | TopologyMismatchError():
            return Failed("forbidden", str(error))
        case PublishExpiredError():
            return expired(waiting, transport)
        case PublishUnsureError():
            told = str(error).removesuffix(".")
            if transport.state.blocked:
                told += ", and takes no messages now, since it is short of memory or disk"
            return outcome_unknown(call, told, published=None)
        case TransportClosedError() if published is not False:
            return outcome_unknown(call, str(error), published=published)
    return Failed("overloaded", str(error), retryable=True)
