"""Lone starts: what one worker writes down before them, every worker reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from grundlag_bus import Call, MemoryTransport, Request
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.transport import Message
from grundlag_bus.transport.topology import Stream
from grundlag_bus.workers.confirmed import Fate
from grundlag_bus.workers.lone_starts import LoneStart, LoneStarts
from tests.support.transports import in_time


class Counting(MemoryTransport):
    reads = 0

    async def read(self, stream: Stream) -> list[bytes]:
        self.reads += 1
        await asyncio.sleep(0.01)
        return await super().read(stream)


@pytest.fixture
async def transport() -> AsyncIterator[Counting]:
    transport = Counting()
    await transport.open()
    yield transport
    await transport.close()


def a_call() -> Call:
    return Call(new_call_id(), "notes", "hold", Request({}), in_time())


async def test_the_last_start_of_a_generation_is_read_by_another_worker(transport: Counting) -> None:
    call, writer, reader = a_call(), LoneStarts(transport, "one"), LoneStarts(transport, "two")
    assert await reader.last(call) is None
    for lost in (2, 5):
        assert await writer.note(call, lost=lost, within=5) is Fate.CONFIRMED
        assert await reader.last(call) == LoneStart(lost, "one")
    assert await reader.last(replace(call, generation=2)) is None
    assert await reader.last(a_call()) is None


async def test_the_first_note_of_a_namespace_makes_the_stream(transport: Counting) -> None:
    call = a_call()
    assert await LoneStarts(transport, "one").note(call, lost=2, within=5) is Fate.CONFIRMED
    assert await LoneStarts(transport, "two").last(call) == LoneStart(2, "one")


async def test_those_who_ask_at_once_share_a_reading_that_is_not_older_than_their_question(
    transport: Counting,
) -> None:
    starts, calls = LoneStarts(transport, "one"), [a_call() for _ in range(20)]
    first = asyncio.create_task(starts.last(a_call()))
    await asyncio.sleep(0.002)
    for call in calls:
        await starts.note(call, lost=3, within=5)
    before = transport.reads
    assert await asyncio.gather(*(starts.last(call) for call in calls)) == [LoneStart(3, "one")] * 20
    await first
    assert transport.reads <= before + 2  # of one that was under way nobody but who began it could be sure


async def test_who_stops_asking_spoils_it_for_nobody(transport: Counting) -> None:
    starts, call = LoneStarts(transport, "one"), a_call()
    await starts.note(call, lost=2, within=5)
    first, second = asyncio.create_task(starts.last(call)), asyncio.create_task(starts.last(call))
    await asyncio.sleep(0.002)
    first.cancel()
    assert await second == LoneStart(2, "one")


@pytest.mark.parametrize(
    "entry", [b"", b"[]", b'"x"', b"{", b'{"v": 1}', b'{"v": 2, "callId": "c", "generation": 1, "lost": 1}']
)
async def test_what_is_no_note_is_passed_over(transport: Counting, entry: bytes) -> None:
    stream, starts, call = transport.topology.starts, LoneStarts(transport, "one"), a_call()
    await transport.read(stream)
    await transport.publish(stream.route, Message(entry, "start"), deadline=in_time())
    await starts.note(call, lost=2, within=5)
    assert await starts.last(call) == LoneStart(2, "one")
