"""What a run tells before its end: in order, joined where it comes faster than it can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from grundlag_bus import Call, MemoryTransport, Progress, Request
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.schema.items import new_item
from grundlag_bus.schema.progress import decode_progress
from grundlag_bus.transport.base import Delivery, Message
from grundlag_bus.transport.topology import Route
from grundlag_bus.workers import reports as reports_module
from grundlag_bus.workers.reports import Reports
from grundlag_bus.workers.run import Run
from tests.support.eventually import eventually


class Unsettled:
    """A delivery that somebody waits for at a mailbox."""

    redelivered = False
    lost = 0
    held = True

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
    assert [progress.done for progress in heard] == [None, 9]
    assert [told["data"] for told in heard[0].items] == [0, 1, 2]


async def test_numbers_and_items_in_turn_are_joined_too(transport: MemoryTransport) -> None:
    heard = await listen(transport)
    reports = reports_to(transport, "m")
    reports.add(Progress(started=1.0))
    for number in range(5000):
        reports.add(Progress(done=number))
        reports.add(Progress(items=[item(number)]))
    await reports.flush()
    await eventually(lambda: len(heard) >= 3)
    assert [(progress.started, progress.done) for progress in heard] == [(1.0, None), (None, None), (None, 4999)]
    assert [told["data"] for told in heard[1].items] == list(range(5000))


async def test_what_no_reply_could_hold_is_not_sent_before_it(transport: MemoryTransport) -> None:
    heard = await listen(transport)
    reports = reports_to(transport, "m")
    reports.add(Progress(items=[new_item("step", "x" * MAX_BYTES).to_json()]))
    reports.add(Progress(done=1))
    await reports.flush()
    await eventually(lambda: heard)
    assert [progress.done for progress in heard] == [1]


async def test_reports_that_cannot_be_sent_hold_up_the_reply_no_longer_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck(MemoryTransport):
        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr(reports_module, "SEND_WITHIN", 0.01)
    transport = Stuck()
    reports = reports_to(transport, "m")
    for number in range(3):
        reports.add(Progress(deferred_until=float(number)))
    async with asyncio.timeout(5):
        await reports.flush()
    await asyncio.sleep(0)
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_what_nobody_takes_is_dropped(transport: MemoryTransport) -> None:
    reports = reports_to(transport, "nobody")
    reports.add(Progress(done=1))
    reports.add(Progress(items=[item(1)]))
    await reports.flush()


async def test_flushing_what_told_nothing_is_done_at_once(transport: MemoryTransport) -> None:
    await reports_to(transport, "m").flush()
