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
    PublishForbiddenError,
    PublishRefusedError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.transport import Message
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.publish import MESSAGE_OVERHEAD
from grundlag_bus.transport.rabbitmq.publisher import Publisher
from grundlag_bus.transport.rabbitmq.wire import Taker, Wire
from grundlag_bus.transport.topology import Route
from tests.support.sockets import Socket

ROUTE = Route("exchange", "key")
OTHER = Route("exchange", "other")
CHANNEL = 1
FORBIDDEN = "ACCESS_REFUSED - write access to topic '{}' in exchange 'exchange' in vhost '/' refused for user 'u'"


class Bench:
    """A publisher on a channel whose broker is the test. ROUTE was tried before."""

    def __init__(self, *, byte_budget: int = 1_000_000) -> None:
        self.lost_channels = 0
        self.told: list[str | None] = []
        self.opened = 0
        self.opening = asyncio.Event()
        self.opening.set()
        self.publisher = Publisher(Address(), byte_budget=byte_budget, lost_channel=self._lost, told=self.told.append)
        self.publisher._known.add(ROUTE)
        self.publishes: list[asyncio.Task[None]] = []
        self.attach()

    def _lost(self) -> None:
        self.lost_channels += 1

    def attach(self) -> None:
        self.wire = Wire(asyncio.get_running_loop())
        self.socket = Socket(self.wire)
        self.wire.takers[CHANNEL] = self.publisher
        self.publisher.attach(self.wire, CHANNEL, 131_072, self._open_channel)

    async def _open_channel(self, taker: Taker) -> int:
        await self.opening.wait()
        self.opened += 1
        number = CHANNEL + self.opened
        self.wire.takers[number] = taker
        return number

    async def publish(self, *bodies: bytes, route: Route = ROUTE, seconds: float = 60) -> list[asyncio.Task[None]]:
        made = [
            asyncio.create_task(self.publisher.publish(route, Message(body, "call"), deadline=time.time() + seconds))
            for body in bodies
        ]
        self.publishes += made
        await settle()
        return made

    @property
    def written(self) -> list[bytes]:
        """The bodies that were written, in order."""
        return [body for _, body in self.written_on]

    @property
    def written_on(self) -> list[tuple[int, bytes]]:
        """The bodies that were written, in order, with their channels."""
        data, bodies = self.socket.written, []
        while data:
            frame: Any
            size, channel, frame = pamqp.frame.unmarshal(data)
            data = data[size:]
            if frame.name == "ContentHeader" and not frame.body_size:
                bodies.append((channel, b""))
            elif frame.name == "ContentBody":
                bodies.append((channel, frame.value))
        return bodies

    @property
    def message_ids(self) -> list[str]:
        return [found.decode() for found in re.findall(rb"[0-9a-f]{12}-\d+", self.socket.written)]

    def confirm(self, tag: int, *, multiple: bool = False, accepted: bool = True, channel: int = CHANNEL) -> None:
        kind: Any = commands.Basic.Ack if accepted else commands.Basic.Nack
        self.wire.data_received(pamqp.frame.marshal(kind(tag, multiple), channel))

    def refuse(self, text: str, *, code: int = 403, channel: int = CHANNEL) -> None:
        """Close the channel, as the broker does for a publish that it does not allow."""
        self.wire.data_received(pamqp.frame.marshal(commands.Channel.Close(code, text, 60, 40), channel))

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
    bench = Bench(byte_budget=2 * (1000 + MESSAGE_OVERHEAD) + 1 + MESSAGE_OVERHEAD)
    await bench.publish(b"1" * 1000, b"2" * 1000, b"3" * 1000, b"4")
    assert [body[:1] for body in bench.written] == [b"1", b"2"]  # the small one does not overtake
    assert bench.publisher.unconfirmed_bytes == 2 * (1000 + MESSAGE_OVERHEAD)
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
    bench = Bench(byte_budget=2 * (10 + MESSAGE_OVERHEAD))
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
    assert bench.publisher.unconfirmed_bytes == 2 * (1 + MESSAGE_OVERHEAD)
    bench.confirm(2, multiple=True)
    assert await bench.ends() == ["cancelled", "None"]
    assert bench.publisher.unconfirmed_bytes == 0


async def test_a_deadline_refuses_what_waits_and_leaves_what_is_written_unsure() -> None:
    bench = Bench(byte_budget=1000)
    await bench.publish(b"1", b"2" * 500, seconds=0.05)
    await bench.publish(b"3", seconds=60)
    await asyncio.sleep(0.1)
    assert await bench.ends() == ["PublishUnsure", "PublishExpired", "open"]
    assert bench.publisher.unconfirmed_bytes == 2 * (1 + MESSAGE_OVERHEAD) or bench.written == [b"1"]
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


# --- publishes that are not allowed -----------------------------------------------------------------------------------


async def test_the_first_to_a_route_goes_alone_and_the_others_follow_its_confirm_in_order() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", b"3", route=OTHER)
    await bench.publish(b"known")
    assert bench.written_on == [(2, b"1"), (1, b"known")]
    await bench.publish(b"4", route=OTHER)
    bench.confirm(1, channel=2)
    await settle()
    assert bench.written_on[2:] == [(1, b"2"), (1, b"3"), (1, b"4")]
    bench.confirm(4, multiple=True)
    assert await bench.ends() == ["None"] * 5
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0


async def test_a_scratch_channel_is_used_again_until_something_is_refused_on_it() -> None:
    bench = Bench()
    for number in range(3):
        await bench.publish(b"%d" % number, route=Route("exchange", f"m{number}"))
        bench.confirm(number + 1, channel=2)
    assert bench.opened == 1
    await bench.publish(b"no", route=OTHER)
    bench.refuse(FORBIDDEN.format("other"), channel=2)
    assert await bench.ends() == ["None"] * 3 + ["PublishForbidden"]
    await bench.publish(b"yes", route=Route("exchange", "m4"))
    assert bench.written_on[-1] == (3, b"yes")
    assert bench.lost_channels == 0


async def test_a_forbidden_route_ends_all_its_publishes_and_no_others() -> None:
    bench = Bench()
    await bench.publish(b"a", b"b", b"c", route=OTHER)
    await bench.publish(b"1", b"2")
    bench.refuse(FORBIDDEN.format("other"), channel=2)
    assert await bench.ends() == ["PublishForbidden"] * 3 + ["open"] * 2
    with pytest.raises(PublishForbiddenError, match=r"'exchange' with key 'other': ACCESS_REFUSED - write access"):
        await bench.publishes[0]
    bench.confirm(2, multiple=True)
    assert await bench.ends() == ["PublishForbidden"] * 3 + ["None"] * 2
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0
    await bench.publish(b"later", route=OTHER)  # a permission may be given at any time
    assert bench.written_on[-1] == (3, b"later")


async def test_a_nack_or_a_return_tells_that_a_route_is_allowed() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", route=OTHER)
    bench.wire.takers[2].returned("id", "NO_ROUTE")
    bench.confirm(1, channel=2)
    assert await bench.ends() == ["Unroutable", "open"]
    await bench.publish(b"a", b"b", route=Route("exchange", "full"))
    bench.confirm(2, channel=2, accepted=False)
    assert await bench.ends() == ["Unroutable", "open", "PublishRefused", "open"]
    assert bench.written_on == [(2, b"1"), (1, b"2"), (2, b"a"), (1, b"b")]


async def test_a_message_over_the_broker_s_limit_is_refused_alone() -> None:
    text = "PRECONDITION_FAILED - message size {} is larger than configured max size 5"
    bench = Bench()
    await bench.publish(b"too long", b"2", route=OTHER)
    bench.refuse(text.format(8), code=406, channel=2)
    await settle()
    assert await bench.ends() == ["PublishForbidden", "open"]
    assert bench.written_on[-1] == (3, b"2")
    await bench.publish(b"3", b"too long", b"4")
    bench.refuse(text.format(8), code=406)
    assert await bench.ends() == ["PublishForbidden", "open", "PublishUnsure", "PublishForbidden", "PublishUnsure"]


async def test_many_fresh_routes_are_tried_side_by_side_on_few_channels() -> None:
    bench = Bench()
    for number in range(100):
        await bench.publish(b"%d" % number, route=Route("exchange", f"m{number}"))
    written = len(bench.written)
    assert bench.opened == written < 100
    used = [0] * 200
    while len(bench.written) > sum(used):
        for channel, _ in bench.written_on[sum(used) :]:
            used[channel] += 1
            bench.confirm(used[channel], channel=channel)
        await settle()
    assert await bench.ends() == ["None"] * 100
    assert bench.opened == written
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0


async def test_a_permission_that_is_revoked_makes_its_route_be_tried_again() -> None:
    bench = Bench()
    bench.publisher._known.add(OTHER)
    await bench.publish(b"1")
    await bench.publish(b"no", b"no", route=OTHER)
    await bench.publish(b"2")
    bench.refuse(FORBIDDEN.format("other"))
    # The first of those two may have been accepted before the broker took notice, and the last was not in any case.
    assert await bench.ends() == ["PublishUnsure", "PublishUnsure", "PublishForbidden", "PublishUnsure"]
    assert bench.lost_channels == 1
    bench.attach()
    await bench.publish(b"again", route=OTHER)
    await bench.publish(b"3")
    assert set(bench.written_on) == {(2, b"again"), (1, b"3")}


async def test_a_refusal_that_does_not_tell_whom_makes_all_routes_be_tried_again() -> None:
    bench = Bench()
    bench.publisher._known.add(OTHER)
    await bench.publish(b"1")
    await bench.publish(b"no", route=OTHER)
    bench.refuse("ACCESS_REFUSED - write access to topic 'kkkk...")
    assert await bench.ends() == ["PublishUnsure"] * 2
    bench.attach()
    await bench.publish(b"1")
    await bench.publish(b"no", route=OTHER)
    assert {channel for channel, _ in bench.written_on} == {2, 3}
    bench.refuse("ACCESS_REFUSED - write access to topic 'kkkk...", channel=3)
    assert await bench.ends() == ["PublishUnsure"] * 2 + ["open", "PublishForbidden"]


async def test_losing_the_connection_during_a_trial_leaves_the_first_unsure_and_the_others_waiting() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", b"3", route=OTHER)
    await bench.publish(b"known")
    bench.wire.connection_lost(None)
    assert await bench.ends() == ["PublishUnsure", "open", "open", "PublishUnsure"]
    await bench.publish(b"4", route=OTHER)
    bench.attach()
    await settle()
    assert bench.written_on == [(3, b"2")]
    bench.confirm(1, channel=3)
    await settle()
    assert bench.written_on == [(3, b"2"), (1, b"3"), (1, b"4")]


async def test_while_a_scratch_channel_is_opened_others_go_on_and_deadlines_are_kept() -> None:
    bench = Bench()
    bench.opening.clear()
    first, second, _ = await bench.publish(b"1", b"2", b"3", route=OTHER)
    await bench.publish(b"late", route=OTHER, seconds=0.02)
    await bench.publish(b"known")
    first.cancel()
    await asyncio.sleep(0.05)
    assert await bench.ends() == ["cancelled", "open", "open", "PublishExpired", "open"]
    assert bench.written == [b"known"]
    bench.opening.set()
    await settle()
    second.cancel()
    await settle()
    assert bench.written_on == [(1, b"known"), (2, b"2")]
    bench.confirm(1, channel=2)
    await settle()
    assert bench.written_on[2:] == [(1, b"3")]


async def test_nobody_waits_beyond_its_deadline_for_a_first_publish_without_an_answer() -> None:
    bench = Bench()
    await bench.publish(b"1", route=OTHER, seconds=0.02)
    await bench.publish(b"2", route=OTHER)
    await asyncio.sleep(0.05)
    assert await bench.ends() == ["PublishUnsure", "open"]
    assert bench.written_on == [(2, b"1"), (3, b"2")]
    bench.confirm(1, channel=3)
    bench.confirm(1, channel=2)
    assert await bench.ends() == ["PublishUnsure", "None"]
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0


async def test_without_a_scratch_channel_publishes_go_together_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    async def fail(_: Taker) -> int:
        raise ConnectionAbortedError("the broker did not answer")

    monkeypatch.setattr(bench, "_open_channel", fail)
    bench.attach()
    await bench.publish(b"1", b"2", route=OTHER)
    await settle()
    assert bench.written_on == [(1, b"1"), (1, b"2")]


async def test_a_first_publish_counts_against_the_budget() -> None:
    bench = Bench(byte_budget=2 * (1 + MESSAGE_OVERHEAD))
    await bench.publish(b"1", route=OTHER)
    await bench.publish(b"2", b"3")
    assert bench.written_on == [(2, b"1"), (1, b"2")]
    bench.confirm(1, channel=2)
    await settle()
    assert bench.written_on[2:] == [(1, b"3")]


async def test_closing_ends_a_trial_and_what_it_holds() -> None:
    bench = Bench()
    await bench.publish(b"1", b"2", route=OTHER)
    bench.opening.clear()
    await bench.publish(b"3", route=Route("exchange", "third"))
    bench.publisher.close()
    assert await bench.ends() == ["PublishUnsure", "TransportClosed", "TransportClosed"]
    assert bench.publisher.outstanding == bench.publisher.unconfirmed_bytes == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- closing ----------------------------------------------------------------------------------------------------------


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
