"""Calls over a transport that does what a test tells it to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from grundlag_bus import BusCaller, Call, Completed, Failed, Reply, Request, Resumption
from grundlag_bus.errors import (
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    TransportError,
    UnroutableError,
)
from grundlag_bus.schema.envelope import decode_call, encode_reply, new_call_id
from grundlag_bus.transport import Message
from grundlag_bus.transport.topology import Queue, Route, Topology
from tests.support.eventually import eventually


class ToldDelivery:
    redelivered = False
    lost = 0

    def __init__(self, body: bytes) -> None:
        self.message = Message(body, "reply")
        self.settled: list[str] = []

    def ack(self) -> None:
        self.settled.append("ack")

    def nack(self) -> None:
        self.settled.append("nack")

    def reject(self) -> None:
        self.settled.append("reject")


class ToldSubscription:
    closed = False

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True


class ToldTransport:
    """Publishes into a list. ends: what each publish raises, in turn; None or nothing left is a confirm."""

    topology = Topology()
    embedded = True

    def __init__(self) -> None:
        self.published: list[Call] = []
        self.ends: list[TransportError | asyncio.Event | None] = []
        self.subscription = ToldSubscription()
        self.receive: Callable[[Any], None]
        self.renewed: Callable[[], None]

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, route: Route, message: Message, *, deadline: float) -> None:
        assert message.reply_to is not None
        assert route.exchange == self.topology.calls.name
        self.published.append(decode_call(message.body))
        end = self.ends.pop(0) if self.ends else None
        if isinstance(end, asyncio.Event):
            await end.wait()
        elif end is not None:
            raise end

    async def subscribe(self, queue: Queue, receive: Any, *, prefetch: int, renewed: Any = None) -> ToldSubscription:
        self.receive, self.renewed = receive, renewed
        return self.subscription

    async def read(self, stream: object) -> list[bytes]:
        return []

    def reply(self, call_id: str, result: Any = None) -> ToldDelivery:
        delivery = ToldDelivery(encode_reply(Reply(call_id, Completed(result), "worker")))
        self.receive(delivery)
        return delivery


@pytest.fixture
def transport() -> ToldTransport:
    return ToldTransport()


@pytest.fixture
async def caller(transport: ToldTransport) -> AsyncIterator[BusCaller]:
    caller = BusCaller(transport)
    await caller.open()
    yield caller
    assert caller.in_flight == 0
    await caller.close()
    assert transport.subscription.closed
    assert not asyncio.all_tasks() - {asyncio.current_task()}


def make_call(*, idempotent: bool = False, seconds: float = 60, resumption: Resumption | None = None) -> Call:
    return Call(
        new_call_id(), "notes", "act", Request({}, resumption), time.time() + seconds, "main", idempotent=idempotent
    )


def begin(caller: BusCaller, call: Call) -> asyncio.Task[Reply]:
    return asyncio.create_task(caller.call(call))


def failed(reply: Reply) -> tuple[str, Any]:
    assert isinstance(reply.response, Failed)
    assert reply.worker == "caller"
    return reply.response.code, reply.response.details


# --- replies ----------------------------------------------------------------------------------------------------------


async def test_replies_find_their_calls_in_any_order(caller: BusCaller, transport: ToldTransport) -> None:
    calls = [make_call() for _ in range(3)]
    waiting = [begin(caller, call) for call in calls]
    await eventually(lambda: len(transport.published) == 3)
    for number, call in reversed(list(enumerate(calls))):
        assert transport.reply(call.call_id, number).settled == ["ack"]
    assert [(await each).response for each in waiting] == [Completed(0), Completed(1), Completed(2)]


async def test_a_reply_before_the_confirm_counts(caller: BusCaller, transport: ToldTransport) -> None:
    confirm = asyncio.Event()
    transport.ends = [confirm]
    call = make_call()
    waiting = begin(caller, call)
    await eventually(lambda: transport.published)
    transport.reply(call.call_id, 1)
    confirm.set()
    assert (await waiting).response == Completed(1)


async def test_what_nobody_waits_for_is_settled_counted_and_dropped(
    caller: BusCaller, transport: ToldTransport
) -> None:
    call = make_call()
    waiting = begin(caller, call)
    await eventually(lambda: transport.published)
    transport.reply(call.call_id, 1)
    assert transport.reply(call.call_id, 2).settled == ["ack"]
    assert transport.reply("unknown").settled == ["ack"]
    assert (await waiting).response == Completed(1)
    assert caller.late_replies == 2


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"v": 7}', b'{"v": 1, "callId": "x"}'])
async def test_what_is_no_reply_is_settled_and_ends_nothing(
    caller: BusCaller, transport: ToldTransport, body: bytes
) -> None:
    call = make_call()
    waiting = begin(caller, call)
    await eventually(lambda: transport.published)
    delivery = ToldDelivery(body)
    transport.receive(delivery)
    assert delivery.settled == ["ack"]
    transport.reply(call.call_id, 1)
    assert (await waiting).response == Completed(1)


# --- what the transport says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (UnroutableError("no queue"), ("provider_unavailable", None)),
        (PublishRefusedError("full"), ("overloaded", None)),
        (PublishUnsureError("cut"), ("outcome_unknown", {"published": None})),
        (TransportClosedError("closed"), ("outcome_unknown", {"published": None})),
    ],
)
async def test_what_is_not_accepted_ends_the_call_at_once(
    caller: BusCaller, transport: ToldTransport, error: TransportError, end: tuple[str, Any]
) -> None:
    transport.ends = [error]
    assert failed(await caller.call(make_call())) == end


async def test_an_unsure_publish_of_an_idempotent_call_is_made_again(
    caller: BusCaller, transport: ToldTransport
) -> None:
    transport.ends = [PublishUnsureError("cut"), PublishUnsureError("cut")]
    call = make_call(idempotent=True)
    waiting = begin(caller, call)
    await eventually(lambda: len(transport.published) == 3)
    assert len({each.call_id for each in transport.published}) == 1
    transport.reply(call.call_id, 1)
    assert (await waiting).response == Completed(1)


async def test_a_refusal_at_the_deadline_is_the_deadline(caller: BusCaller, transport: ToldTransport) -> None:
    transport.ends = [PublishRefusedError("too late")]
    code, details = failed(await caller.call(make_call(seconds=-1)))
    assert code == "deadline_exceeded"
    assert details["published"] is not True


async def test_the_deadline_says_whether_the_call_was_published(caller: BusCaller, transport: ToldTransport) -> None:
    assert failed(await caller.call(make_call(seconds=0.02))) == ("deadline_exceeded", {"published": True})


async def test_calls_whose_mailbox_is_gone_are_sent_again_or_given_up(
    caller: BusCaller, transport: ToldTransport
) -> None:
    harmless, other = make_call(idempotent=True), make_call()
    waiting = [begin(caller, call) for call in (harmless, other)]
    await eventually(lambda: len(transport.published) == 2)
    await asyncio.sleep(0)
    transport.renewed()
    assert failed(await waiting[1]) == ("outcome_unknown", {"published": True})
    await eventually(lambda: len(transport.published) == 3)
    assert transport.published[2].call_id == harmless.call_id
    transport.reply(harmless.call_id, 1)
    assert (await waiting[0]).response == Completed(1)


# --- the same call twice ----------------------------------------------------------------------------------------------

ANSWER = Resumption("i1", {"approved": True}, "sealed")


@pytest.mark.parametrize("resumption", [ANSWER, None])
async def test_the_same_call_twice_at_once_is_sent_once(
    caller: BusCaller, transport: ToldTransport, resumption: Resumption | None
) -> None:
    call = make_call(resumption=resumption)
    waiting = [begin(caller, call) for _ in range(3)]
    await eventually(lambda: transport.published)
    transport.reply(call.call_id, 1)
    assert [reply.response for reply in await asyncio.gather(*waiting)] == [Completed(1)] * 3
    assert len(transport.published) == 1


async def test_an_answer_is_sent_once_also_when_the_first_who_gave_it_leaves(
    caller: BusCaller, transport: ToldTransport
) -> None:
    confirm = asyncio.Event()
    transport.ends = [confirm]
    call = make_call(resumption=ANSWER)
    first, second = begin(caller, call), begin(caller, call)
    await eventually(lambda: transport.published)
    first.cancel()
    await asyncio.wait({first})
    confirm.set()
    transport.reply(call.call_id, 1)
    assert (await second).response == Completed(1)
    assert len(transport.published) == 1


async def test_a_call_that_is_given_up_is_forgotten_and_whoever_joined_it_is_told(
    caller: BusCaller, transport: ToldTransport
) -> None:
    call = make_call()
    first, second = begin(caller, call), begin(caller, call)
    await eventually(lambda: transport.published)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert caller.in_flight == 0
    assert failed(await second)[0] == "outcome_unknown"


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_closing_ends_what_waits_and_then_the_mailbox(transport: ToldTransport) -> None:
    caller = BusCaller(transport)
    await caller.open()
    await caller.open()
    blocked = asyncio.Event()
    calls = [begin(caller, make_call()), begin(caller, make_call(resumption=ANSWER))]
    await eventually(lambda: len(transport.published) == 2)
    await caller.close()
    await caller.close()
    assert [failed(await each) for each in calls] == [("outcome_unknown", {"published": True})] * 2
    blocked.set()
    with pytest.raises(TransportClosedError):
        await caller.call(make_call())


async def test_calls_do_not_change(caller: BusCaller, transport: ToldTransport) -> None:
    call = make_call(seconds=0.01)
    await caller.call(call)
    (sent,) = transport.published
    assert replace(sent, deadline=call.deadline, sent_at=call.sent_at) == call
