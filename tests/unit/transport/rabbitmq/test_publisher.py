"""The publisher: where each publish is, what it costs, and how it ends."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pamqp.frame
import pytest
from pamqp import commands

from grundlag_bus.errors import (
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.transport import Message
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.publisher import _MESSAGE_OVERHEAD, Publisher
from grundlag_bus.transport.rabbitmq.wire import Wire
from grundlag_bus.transport.topology import Route
from tests.support.sockets import Socket

ROUTE = Route("exchange", "key")
CHANNEL = 1


class Bench:
    """A publisher on a channel whose broker is the test."""

    def __init__(self, *, byte_budget: int = 1_000_000) -> None:
        self.lost_channels = 0
        self.publisher = Publisher(Address(), byte_budget=byte_budget, lost_channel=self._lost)
        self.publishes: list[asyncio.Task[None]] = []
        self.attach()

    def _lost(self) -> None:
        self.lost_channels += 1

    def attach(self) -> None:
        self.wire = Wire(asyncio.get_running_loop())
        self.socket = Socket(self.wire)
        self.wire.takers[CHANNEL] = self.publisher
        self.publisher.attach(self.wire, CHANNEL, 131_072)

    async def publish(self, *bodies: bytes, seconds: float = 60) -> list[asyncio.Task[None]]:
        made = [
            asyncio.create_task(self.publisher.publish(ROUTE, Message(body, "call"), deadline=time.time() + seconds))
            for body in bodies
        ]
        self.publishes += made
        await settle()
        return made

    @property
    def written(self) -> list[bytes]:
        """The bodies that were written, in order."""
        data, bodies = self.socket.written, []
        while data:
            frame: Any
            size, _, frame = pamqp.frame.unmarshal(data)
            data = data[size:]
            if frame.name == "ContentHeader" and not frame.body_size:
                bodies.append(b"")
            elif frame.name == "ContentBody":
                bodies.append(frame.value)
        return bodies

    @property
    def message_ids(self) -> list[str]:
        return [found.decode() for found in re.findall(rb"[0-9a-f]{12}-\d+", self.socket.written)]

    def confirm(self, tag: int, *, multiple: bool = False, accepted: bool = True) -> None:
        kind: Any = commands.Basic.Ack if accepted else commands.Basic.Nack
        self.wire.data_received(pamqp.frame.marshal(kind(tag, multiple), CHANNEL))

    async def ends(self) -> list[str]:
        """Tell how each publish ended: nothing, the name of its error, or that it has not."""
        await settle()
        return [
            "open"
            if not publish.done()
            else "cancelled"
            if publish.cancelled()
            else type(publish.exception()).__name__.removesuffix("Error").removesuffix("Type")
            for publish in self.publishes
        ]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_confirms_end_publishes_in_any_order() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", b"3", b"4", b"5", b"6")
    assert bench.written == [b"1", b"2", b"3", b"4", b"5", b"6"]
    bench.confirm(5)
    bench.confirm(2)
    assert await bench.ends() == ["open", "None", "open", "open", "None", "open"]
    bench.confirm(4, multiple=True)
    assert await bench.ends() == ["None"] * 5 + ["open"]
    bench.confirm(6, accepted=False)
    assert await bench.ends() == ["None"] * 5 + ["PublishRefused"]
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0


async def test_a_multiple_refusal_refuses_all_before_it() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", b"3")
    bench.confirm(2, multiple=True, accepted=False)
    assert await bench.ends() == ["PublishRefused", "PublishRefused", "open"]


async def test_confirms_of_nothing_known_do_no_harm() -> None:
    bench = Bench()
    bench.confirm(9)
    bench.confirm(9, multiple=True)
    bench.publisher.returned(None, "NO_ROUTE")
    bench.publisher.returned("foreign", "NO_ROUTE")
    bench.publisher.returned("foreign-1", "NO_ROUTE")
    await bench.publish(b"1")
    bench.confirm(1)
    bench.confirm(1)
    assert await bench.ends() == ["None"]


async def test_a_return_names_the_publish_and_comes_before_its_confirm() -> None:
    bench = Bench()
    first, second = await bench.publish(b"1", b"2")
    assert len(set(bench.message_ids)) == 2
    bench.publisher.returned(bench.message_ids[1], "NO_ROUTE")
    with pytest.raises(UnroutableError, match=r"'exchange' with key 'key'"):
        await second
    bench.confirm(2, multiple=True)
    await first


async def test_the_budget_is_taken_before_writing_and_in_order() -> None:
    bench = Bench(byte_budget=2 * (1000 + _MESSAGE_OVERHEAD) + 1 + _MESSAGE_OVERHEAD)
    await bench.publish(b"1" * 1000, b"2" * 1000, b"3" * 1000, b"4")
    assert [body[:1] for body in bench.written] == [b"1", b"2"]  # the small one does not overtake
    assert bench.publisher.unconfirmed_bytes == 2 * (1000 + _MESSAGE_OVERHEAD)
    bench.confirm(2)
    await settle()
    assert [body[:1] for body in bench.written] == [b"1", b"2", b"3", b"4"]
    bench.confirm(3, multiple=True)
    assert await bench.ends() == ["None", "None", "None", "open"]


async def test_a_message_over_the_whole_budget_goes_alone() -> None:
    bench = Bench(byte_budget=1000)
    await bench.publish(b"1", b"2" * 5000, b"3")
    assert [body[:1] for body in bench.written] == [b"1"]
    bench.confirm(1)
    await settle()
    assert [body[:1] for body in bench.written] == [b"1", b"2"]
    bench.confirm(2)
    await settle()
    assert [body[:1] for body in bench.written] == [b"1", b"2", b"3"]


async def test_cancelling_a_waiting_publish_gives_its_place_back() -> None:
    bench = Bench(byte_budget=2 * (10 + _MESSAGE_OVERHEAD))
    _, waiting, _ = await bench.publish(b"1", b"2" * 1000, b"3")
    assert bench.written == [b"1"]
    waiting.cancel()
    await settle()
    assert bench.written == [b"1", b"3"]


async def test_cancelling_a_written_publish_keeps_its_bytes_until_it_is_confirmed() -> None:
    bench = Bench()
    first, _ = await bench.publish(b"1", b"2")
    first.cancel()
    await settle()
    assert bench.publisher.unconfirmed_bytes == 2 * (1 + _MESSAGE_OVERHEAD)
    bench.confirm(2, multiple=True)
    assert await bench.ends() == ["cancelled", "None"]
    assert bench.publisher.unconfirmed_bytes == 0


async def test_a_deadline_refuses_what_waits_and_leaves_what_is_written_unsure() -> None:
    bench = Bench(byte_budget=1000)
    await bench.publish(b"1", b"2" * 500, seconds=0.05)
    await bench.publish(b"3", seconds=60)
    await asyncio.sleep(0.1)
    assert await bench.ends() == ["PublishUnsure", "PublishExpired", "open"]
    assert bench.publisher.unconfirmed_bytes == 2 * (1 + _MESSAGE_OVERHEAD) or bench.written == [b"1"]
    bench.confirm(1)
    await settle()
    assert bench.written == [b"1", b"3"]


@pytest.mark.parametrize("order", [(0.2, 0.05), (0.05, 0.2)])
async def test_each_deadline_is_kept(order: tuple[float, float]) -> None:
    bench = Bench()
    for seconds in order:
        await bench.publish(b"x", seconds=seconds)
    began = asyncio.get_running_loop().time()
    await asyncio.wait(bench.publishes, return_when=asyncio.FIRST_COMPLETED)
    assert asyncio.get_running_loop().time() - began < 0.15
    await asyncio.wait(bench.publishes)
    assert await bench.ends() == ["PublishUnsure"] * 2


async def test_a_passed_deadline_writes_nothing() -> None:
    bench = Bench()
    with pytest.raises(PublishRefusedError, match="the deadline had passed"):
        await bench.publisher.publish(ROUTE, Message(b"x", "call"), deadline=time.time() - 1)
    assert bench.written == []
    assert bench.publisher.outstanding == 0


async def test_while_the_broker_blocks_publishes_wait() -> None:
    bench = Bench()
    bench.wire.data_received(pamqp.frame.marshal(commands.Connection.Blocked("low on memory"), 0))
    await bench.publish(b"1")
    await bench.publish(b"2", seconds=0.02)
    await asyncio.sleep(0.05)
    assert bench.written == []
    with pytest.raises(PublishRefusedError, match="low on memory"):
        await bench.publishes[1]
    bench.wire.data_received(pamqp.frame.marshal(commands.Connection.Unblocked(), 0))
    await settle()
    assert bench.written == [b"1"]


async def test_while_the_socket_is_full_publishes_wait() -> None:
    bench = Bench()
    bench.wire.pause_writing()
    bench.publisher.blocked(None)  # has it look
    await bench.publish(b"1", b"2")
    assert bench.written == []
    bench.wire.resume_writing()
    await settle()
    assert bench.written == [b"1", b"2"]


async def test_losing_the_channel_leaves_what_was_written_unsure_and_what_waits_waiting() -> None:
    bench = Bench(byte_budget=1600)
    await bench.publish(b"1", b"2", b"3" * 500)
    bench.wire.connection_lost(None)
    assert await bench.ends() == ["PublishUnsure", "PublishUnsure", "open"]
    assert bench.publisher.unconfirmed_bytes == 0
    await bench.publish(b"4")
    bench.attach()
    await settle()
    assert [body[:1] for body in bench.written] == [b"3", b"4"]
    bench.confirm(2, multiple=True)
    assert await bench.ends() == ["PublishUnsure", "PublishUnsure", "None", "None"]


async def test_a_publish_that_alone_made_the_broker_close_the_channel_is_refused() -> None:
    bench = Bench()
    close = pamqp.frame.marshal(commands.Channel.Close(403, "ACCESS_REFUSED - no", 60, 40), CHANNEL)
    (alone,) = await bench.publish(b"1")
    bench.wire.data_received(close)
    with pytest.raises(PublishRefusedError, match="ACCESS_REFUSED - no"):
        await alone
    bench.attach()
    for publish in await bench.publish(b"1", b"2"):
        if not publish.done():
            bench.wire.data_received(close)
        with pytest.raises(PublishUnsureError):
            await publish
    assert bench.lost_channels == 2


async def test_closing_ends_everything() -> None:
    bench = Bench(byte_budget=600)
    await bench.publish(b"1", b"2" * 200)
    bench.publisher.close()
    bench.publisher.close()
    assert await bench.ends() == ["PublishUnsure", "TransportClosed"]
    with pytest.raises(TransportClosedError):
        await bench.publisher.publish(ROUTE, Message(b"x", "call"), deadline=time.time() + 1)
    assert bench.publisher.outstanding == 0


async def test_a_text_that_amqp_cannot_carry_ends_that_publish_alone() -> None:
    bench = Bench()
    bad = Message(b"x", "call", correlation_id="x" * 256)
    with pytest.raises(ValueError, match="255"):
        await bench.publisher.publish(ROUTE, bad, deadline=time.time() + 60)
    bench.wire.pause_writing()
    bench.publisher.blocked(None)  # has it look at the socket
    waiting = asyncio.create_task(bench.publisher.publish(ROUTE, bad, deadline=time.time() + 60))
    await bench.publish(b"1")
    assert bench.publisher.outstanding == 2
    bench.wire.resume_writing()
    with pytest.raises(ValueError, match="255"):
        await waiting
    await settle()
    bench.confirm(1)
    assert await bench.ends() == ["None"]
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0
