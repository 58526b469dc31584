"""What a worker hears of cancellations, also where it could not read of them at once."""

from __future__ import annotations

import time

import pytest
import structlog.testing

from grundlag_bus import MemoryTransport, ProviderRegistry, Worker
from grundlag_bus.errors import BusUnreachableError, PublishForbiddenError
from grundlag_bus.schema.control import Cancel
from grundlag_bus.transport.base import Message
from grundlag_bus.transport.topology import Stream
from grundlag_bus.workers import control
from tests.support.eventually import eventually


class Faulty(MemoryTransport):
    """Fails to read, as often as it is told to."""

    failures: list[Exception]

    async def read(self, stream: Stream) -> list[bytes]:
        if self.failures:
            raise self.failures.pop()
        return await super().read(stream)


@pytest.mark.parametrize(
    ("failures", "known"),
    [([BusUnreachableError("cut")] * 3, True), ([PublishForbiddenError("no")], False)],
)
async def test_what_was_missed_in_an_outage_is_read_until_that_is_done(
    monkeypatch: pytest.MonkeyPatch, failures: list[Exception], *, known: bool
) -> None:
    monkeypatch.setattr(control, "BETWEEN_READINGS", 0.001)
    transport = Faulty()
    transport.failures = []
    await transport.open()
    await transport.read(transport.topology.cancels)
    body = Cancel("c", time.time()).encode()
    await transport.publish(transport.topology.cancels.route, Message(body, "cancel"), deadline=time.time() + 60)
    hears = Worker(transport, ProviderRegistry())._control
    transport.failures = list(failures)
    with structlog.testing.capture_logs() as logs:
        hears._renewed()
        await eventually(lambda: not len(hears._beside))
    assert ("c" in hears._cancelled) is known
    assert [line["event"] for line in logs] == ["cancels_not_read"]
    await transport.close()
