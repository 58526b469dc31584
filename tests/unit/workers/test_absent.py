"""What is announced, as a worker reads it for calls of actions that it lacks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from grundlag_bus import Call, MemoryTransport, Request
from grundlag_bus.errors import BusUnreachableError, TransportClosedError
from grundlag_bus.providers.disposition import Again, End
from grundlag_bus.transport.topology import Stream
from grundlag_bus.workers import absent
from grundlag_bus.workers.absent import Absent
from grundlag_bus.workers.announce import announce
from tests.unit.workers.test_announce import registry


class Counting(MemoryTransport):
    """Counts how often it is read, and takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0
        self.fails = False

    async def read(self, stream: Stream) -> list[bytes]:
        self.readings += 1
        await asyncio.sleep(0.01)
        if self.fails:
            raise BusUnreachableError("It is away.")
        return await super().read(stream)


@pytest.fixture
async def transport() -> Any:
    transport = Counting()
    await transport.open()
    yield transport
    await transport.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent, "BETWEEN_READINGS", 0.3)


def call(action_id: str) -> Call:
    return Call("c", "notes", action_id, Request({}), time.time() + 60)


async def test_many_calls_share_a_reading(transport: Counting) -> None:
    await announce(transport, registry("a"), worker="w")
    transport.readings = 0
    of = Absent(transport)
    decided = await asyncio.gather(*(of.decide(call(action_id)) for action_id in ("a", "b") * 20))
    assert [type(each) for each in decided] == [Again, End] * 20
    assert transport.readings == 1
    assert isinstance(await of.decide(call("a")), Again)
    assert transport.readings == 1


async def test_nothing_is_unknown_by_a_reading_of_before(transport: Counting) -> None:
    await announce(transport, registry("a"), worker="w")
    of = Absent(transport)
    assert isinstance(await of.decide(call("b")), End)
    await announce(transport, registry("a", "b"), worker="w")
    assert isinstance(await of.decide(call("b")), Again)


async def test_readings_are_some_time_apart(transport: Counting) -> None:
    of, begun = Absent(transport), time.monotonic()
    for _ in range(3):
        assert isinstance(await of.decide(call("a")), End)
    assert transport.readings == 3
    assert time.monotonic() - begun >= 2 * 0.3 - 0.05


async def test_what_was_announced_once_is_looked_at_again(transport: Counting) -> None:
    await announce(transport, registry("a", "b"), worker="w")
    of = Absent(transport)
    assert isinstance(await of.decide(call("b")), Again)
    await announce(transport, registry("a", revision=1), worker="w")
    await asyncio.sleep(0.35)
    assert isinstance(await of.decide(call("b")), End)


async def test_while_nobody_can_tell_a_call_waits(transport: Counting) -> None:
    transport.fails = True
    of = Absent(transport)
    assert isinstance(await of.decide(call("a")), Again)
    assert isinstance(await of.decide(call("b")), Again)
    assert transport.readings == 1, "who cannot be read is not asked for each call either"
    transport.fails = False
    await asyncio.sleep(0.35)
    assert isinstance(await of.decide(call("a")), End)


async def test_a_closed_transport_decides_nothing(transport: Counting) -> None:
    await transport.close()
    with pytest.raises(TransportClosedError):
        await Absent(transport).decide(call("a"))
