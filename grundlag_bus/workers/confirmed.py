"""Publish until the broker has it, and say how that went."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, wait_random_exponential

from grundlag_bus.errors import (
    GrundlagError,
    PublishForbiddenError,
    PublishRefusedError,
    PublishUnsureError,
    TopologyMismatchError,
    TransportClosedError,
    TransportError,
    UnroutableError,
)

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Message, Transport
    from grundlag_bus.transport.topology import Route

_PAUSES = wait_random_exponential(multiplier=0.05, max=2)
_PASSING = (PublishRefusedError, PublishUnsureError)


class Fate(Enum):
    """What became of a message."""

    CONFIRMED = auto()
    NOBODY = auto()
    """No queue takes it."""
    FORBIDDEN = auto()
    """The broker does not let this user publish it, or has something else where it would go."""
    GIVEN_UP = auto()
    """It was not confirmed in time; it may have been accepted all the same."""
    CLOSED = auto()
    """The transport was closed meanwhile."""


async def publish_confirmed(transport: Transport, route: Route, message: Message, *, until: float) -> Fate:
    """Publish, again and again after pauses, until it is confirmed or cannot be. until: by the transport's clock."""
    try:
        await transport.publish(route, message, deadline=until)
    except _PASSING:
        return await _again(transport, route, message, until)
    except (TransportError, TopologyMismatchError) as error:
        return _fate(error)
    return Fate.CONFIRMED


async def _again(transport: Transport, route: Route, message: Message, until: float) -> Fate:
    def too_late(_: RetryCallState) -> bool:
        return transport.now() >= until

    trying = AsyncRetrying(retry=retry_if_exception_type(_PASSING), wait=_PAUSES, stop=too_late)
    try:
        await trying(transport.publish, route, message, deadline=until)
    except RetryError:
        return Fate.GIVEN_UP
    except (TransportError, TopologyMismatchError) as error:
        return _fate(error)
    return Fate.CONFIRMED


def _fate(error: GrundlagError) -> Fate:
    match error:
        case UnroutableError():
            return Fate.NOBODY
        case PublishForbiddenError() | TopologyMismatchError():
            return Fate.FORBIDDEN
        case TransportClosedError():
            return Fate.CLOSED
    return Fate.GIVEN_UP
