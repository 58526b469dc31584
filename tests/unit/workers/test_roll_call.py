"""Every worker says how it stands, and nobody else does."""

from __future__ import annotations

import pytest

from grundlag_bus import connect
from grundlag_bus.errors import EnvelopeError
from grundlag_bus.workers.roll_call import roll_call
from grundlag_bus.workers.status import WorkerStatus, decode_status, encode_status
from tests.support.hosts import open_host

STATUS = WorkerStatus(
    "w", ("a", "b"), ("main",), started=True, draining=False, in_flight=3, connected=True, blocked=False,
    consumers_wanted=2, consumers_actual=1,
)  # fmt: skip


async def test_every_worker_answers() -> None:
    async with open_host("memory", "roll", "memory://roll") as host:
        await host.add_worker()
        transport = host.bus.transport
        assert transport is not None
        found = await roll_call(transport, within=0.1)
        assert [status.name for status in found] == sorted(running.worker.name for running in host.workers)
        assert all(status.started and status.providers == ("contract",) for status in found)


async def test_where_there_is_no_worker_nobody_answers() -> None:
    async with connect("memory://") as bus:
        assert bus.transport is not None
        assert await roll_call(bus.transport, within=0.01) == []


def test_a_status_crosses() -> None:
    assert decode_status(encode_status(STATUS)) == STATUS
    assert b'"consumersWanted":2' in encode_status(STATUS)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"1", b'{"name": "w"}'])
def test_what_is_no_status_is_refused(body: bytes) -> None:
    with pytest.raises(EnvelopeError, match="no worker's status"):
        decode_status(body)
