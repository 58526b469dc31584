"""What a run tells before its end: in order, joined where it comes faster than it can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from grundlag_bus import Call, MemoryTransport, Progress, Request
from grundlag_bus.schema.items import new_item
from grundlag_bus.schema.progress import decode_progress
from grundlag_bus.transport.base import Delivery, Message
from grundlag_bus.workers.reports import Reports
from grundlag_bus.workers.run import Run


class Unsettled:
    """A delivery that somebody waits for at a mailbox."""

    redelivered = False
    lost = 0

    def __init__(self, mailbox: str) -> None:
        self.message = Message(b"", "call", reply_to=mailbox)

    def ack(self) -> None: ...
    def nack(self) -> None: ...
    def reject(self) -> None: ...


@pytest.fixture
async def transport() -> AsyncIterator[MemoryTransport]:
    transport = MemoryTransport()
    await transport.open()
    yield transport
    await transport.close()


async def listen(transport: MemoryTransport) -> list[Progress]:
    heard: list[Progress] = []

    def receive(delivery: Delivery) -> None:
        call_id, progress = decode_progress(delivery.message.body)
        assert call_id == "c"
        heard.append(progress)
        delivery.ack()

    await transport.subscribe(transport.topology.mailbox("m"), receive, prefetch=100)
    return heard


def reports_to(transport: MemoryTransport, mailbox: str) -> Reports:
    return Reports(transport, Run(Call("c", "p", "a", Request({}), 0.0), Unsettled(mailbox)))


def item(number: int) -> dict[str, object]:
    return new_item("step", number).to_json()


async def test_of_numbers_that_wait_the_newest_goes_out_and_of_items_all_do(transport: MemoryTransport) -> None:
    heard = await listen(transport)
    reports = reports_to(transport, "m")
    for number in range(5):
        reports.add(Progress(done=number))
    for number in range(3):
        reports.add(Progress(items=[item(number)]))
    reports.add(Progress(done=9))
    await reports.flush()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [progress.done for progress in heard] == [4, None, 9]
    assert [told["data"] for told in heard[1].items] == [0, 1, 2]


async def test_what_nobody_takes_is_dropped(transport: MemoryTransport) -> None:
    reports = reports_to(transport, "nobody")
    reports.add(Progress(done=1))
    reports.add(Progress(items=[item(1)]))
    await reports.flush()


async def test_flushing_what_told_nothing_is_done_at_once(transport: MemoryTransport) -> None:
    await reports_to(transport, "m").flush()
