"""What a worker asks of the broker for each lane."""

from __future__ import annotations

import re

import pytest

from grundlag_bus import ConfigurationError, RabbitTransport, Worker
from grundlag_bus.workers.lanes import LANES
from tests.support.broker import Broker
from tests.support.hosts import RunningWorker
from tests.support.lanes import registry

_TIMEOUT = re.compile(r'"x-consumer-timeout",\s*(?:\w+,\s*)?(\d+)')


async def test_deliveries_stay_with_a_worker_for_as_long_as_their_lane_says(own_broker: Broker, namespace: str) -> None:
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    running = RunningWorker(Worker(transport, registry, limits={"main": 100.0}), transport)
    try:
        await running.started()
        listed = await own_broker.ctl("list_consumers", "queue_name", "prefetch_count", "arguments", "--silent")
    finally:
        await running.stop()
    asked = {}
    for line in listed.splitlines():
        queue, prefetch, arguments = line.split("\t")
        if f"{namespace}.1.calls." in queue:
            found = _TIMEOUT.search(arguments)
            assert found is not None, line
            asked[queue.removeprefix(f"{namespace}.1.calls.")] = (int(prefetch), int(found[1]))
    assert asked == {
        "swift.main": (64, 280_000),
        "heavy.main": (64, 280_000),
        "heavy.long": (16, int(LANES["long"].consumer_timeout * 1000)),
    }


async def test_a_worker_of_a_long_lane_starts_on_no_broker_that_takes_calls_back_early(
    broker: Broker, namespace: str
) -> None:
    transport = RabbitTransport(broker.url, namespace=namespace)
    await transport.open()
    honours = transport.broker.honours_consumer_timeout
    assert honours == (int(broker.version.partition(".")[0]) >= 4)
    running = RunningWorker(Worker(transport, registry), transport)
    if honours:
        await running.started()
        await running.stop()
    else:
        with pytest.raises(ConfigurationError, match=r"lane 'long'.*--lane main"):
            await running.started()
        await transport.close()
