"""What becomes of an event that the broker does not take."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from grundlag_bus import EmittedEvent, EventNotSentError, MemoryTransport
from grundlag_bus.errors import (
    PublishExpiredError,
    PublishForbiddenError,
    PublishUnsureError,
    TransportClosedError,
    TransportError,
    UnroutableError,
)
from grundlag_bus.workers.event_sender import EventSender

EVENT = EmittedEvent("1f", "calendar", "moved", "c1", datetime.now(UTC), None)


class Told(MemoryTransport):
    """Raises what it is told at each publish, and then takes all."""

    def __init__(self, *ends: TransportError) -> None:
        super().__init__()
        self.ends = list(ends)

    async def publish(self, *_: object, **__: object) -> None:
        if self.ends:
            raise self.ends.pop(0)


@pytest.mark.parametrize(
    "passing", [[UnroutableError("nobody")], [PublishUnsureError("cut"), PublishUnsureError("cut")]]
)
async def test_that_nobody_listens_or_a_connection_was_cut_is_no_error(passing: list[TransportError]) -> None:
    await EventSender(Told(*passing))(EVENT, deadline=time.time() + 60)


@pytest.mark.parametrize(
    ("error", "told", "accepted"),
    [
        (PublishForbiddenError("no"), "right to write", False),
        (TransportClosedError("closed"), "connection was closed", False),
        (PublishExpiredError("late"), "deadline", None),
    ],
)
async def test_what_the_broker_does_not_take_is_raised(error: TransportError, told: str, accepted: object) -> None:
    with pytest.raises(EventNotSentError, match=told) as raised:
        await EventSender(Told(error, error))(EVENT, deadline=time.time())
    assert (raised.value.event_id, raised.value.accepted) == ("moved", accepted)
