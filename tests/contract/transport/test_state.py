"""What a transport tells of itself."""

from __future__ import annotations

import pytest

from grundlag_bus.errors import TransportClosedError
from grundlag_bus.transport import Transport, TransportState
from tests.support.eventually import eventually
from tests.support.transports import Inbox, OneBus, reconnect


def state(*, connected: bool = True, wanted: int = 0) -> TransportState:
    return TransportState(connected=connected, blocked=False, consumers_wanted=wanted, consumers_actual=wanted)


async def test_before_it_is_open_it_is_not_connected_and_knows_no_broker(bus: OneBus) -> None:
    transport = bus.transport()
    assert transport.state == state(connected=False)
    with pytest.raises(TransportClosedError):
        str(transport.broker)


async def test_an_open_one_is_connected_and_knows_its_broker(transport: Transport) -> None:
    assert transport.state == state()
    assert transport.broker.product
    assert transport.broker.version


async def test_subscriptions_count_until_they_are_stopped_or_closed(transport: Transport) -> None:
    queue = transport.topology.call_queue("calendar", "main")
    first, second = [await transport.subscribe(queue, Inbox(), prefetch=1) for _ in range(2)]
    assert transport.state == state(wanted=2)
    await first.stop()
    assert transport.state == state(wanted=1)
    await second.pause()
    assert transport.state == state()
    second.resume()
    await eventually(lambda: transport.state == state(wanted=1))
    await first.close()
    await second.close()
    assert transport.state == state()


async def test_after_a_reconnect_it_is_as_before(transport: Transport) -> None:
    await reconnect(transport)
    assert transport.state == state()


async def test_a_closed_one_is_not_connected(transport: Transport) -> None:
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)
    await transport.close()
    assert transport.state == state(connected=False)
