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
    CallError,
    DeadlineExceededError,
    ForbiddenError,
    OutcomeUnknownError,
    OverloadedError,
    ProviderUnavailableError,
    PublishExpiredError,
    PublishForbiddenError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    TransportError,
    UnroutableError,
)
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.schema.envelope import decode_call, encode_reply, new_call_id
from grundlag_bus.transport import Broker, Delivery, MemoryBus, MemoryTransport, Message, TransportState
from grundlag_bus.transport.topology import Queue, Route, Topology
from tests.support.eventually import eventually


class ToldDelivery:
    redelivered = False
    lost = 0
    held = True

    def __init__(self, body: bytes, correlation_id: str | None = None) -> None:
        self.message = Message(body, "reply", correlation_id)
        self.settled: list[str] = []

    def ack(self) -> None:
        self.settled.append("ack")

    def nack(self) -> None:
        self.settled.append("nack")

    def reject(self) -> None:
        self.settled.append("reject")


class Stuck(asyncio.Event):
    """A publish that is not written until it is set."""


class ToldSubscription:
    closed = False

    async def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True


class ToldTransport:
    """Publishes into a list. ends: what each publish raises, in turn; None or nothing left is a confirm."""

    topology = Topology()
    embedded = True
    broker = Broker("told", (1,), honours_consumer_timeout=True, counts_only_losses=True)
    state = TransportState(connected=True, blocked=False, consumers_wanted=0, consumers_actual=0)

    def __init__(self) -> None:
        self.published: list[Call] = []
        self.deadlines: list[float] = []
        self.ends: list[TransportError | asyncio.Event | None] = []
        self.subscription = ToldSubscription()
        self.receive: Callable[[Any], None]
        self.renewed: Callable[[], None]

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def now(self) -> float:
        return time.time()

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        assert message.reply_to is not None
        assert route.needs is not None or route.exchange == self.topology.calls.name
        self.published.append(decode_call(message.body))
        self.deadlines.append(deadline)
        end = self.ends.pop(0) if self.ends else None
        if written is not None and (end is None or isinstance(end, PublishUnsureError) or type(end) is asyncio.Event):
            written()
        if isinstance(end, asyncio.Event):
            await end.wait()
        elif end is not None:
            raise end

    async def subscribe(
        self, queue: Queue, receive: Any, *, prefetch: int, renewed: Any = None, consumer_timeout: float | None = None
    ) -> ToldSubscription:
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


async def test_a_call_that_has_ended_leaves_no_timer(caller: BusCaller, transport: ToldTransport) -> None:
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    before = sum(not timer.cancelled() for timer in scheduled)
    for _ in range(10):
        call = make_call()
        waiting = begin(caller, call)
        await asyncio.sleep(0)
        transport.reply(call.call_id)
        await waiting
    assert sum(not timer.cancelled() for timer in scheduled) == before


async def test_a_request_that_is_too_large_is_not_published(caller: BusCaller, transport: ToldTransport) -> None:
    code, details = failed(await caller.call(replace(make_call(), request=Request("x" * MAX_BYTES))))
    assert (code, details["limit"]) == ("payload_too_large", MAX_BYTES)
    assert not transport.published


# --- what the transport says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (UnroutableError("no queue"), ("provider_unavailable", None)),
        (PublishRefusedError("full"), ("overloaded", None)),
        (PublishForbiddenError("not yours"), ("forbidden", None)),
        (PublishUnsureError("cut"), ("outcome_unknown", {"published": None})),
        (TransportClosedError("closed"), ("overloaded", None)),
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


async def test_what_was_not_written_by_the_deadline_did_not_run(caller: BusCaller, transport: ToldTransport) -> None:
    transport.ends = [PublishExpiredError("too late")]
    assert failed(await caller.call(make_call())) == ("deadline_exceeded", {"published": False})


async def test_a_deadline_that_passes_while_nothing_can_be_written_says_so(
    caller: BusCaller, transport: ToldTransport
) -> None:
    transport.ends = [Stuck()]
    assert failed(await caller.call(make_call(seconds=0.02))) == ("deadline_exceeded", {"published": False})


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(PublishExpiredError("late"), 5), (PublishUnsureError("It was not confirmed."), 5), (None, 0.02)],
)
async def test_a_call_that_ends_while_the_broker_takes_no_messages_says_so_in_one_sentence(
    caller: BusCaller, transport: ToldTransport, error: TransportError | None, seconds: float
) -> None:
    transport.state = replace(transport.state, blocked=True)
    transport.ends = [error]
    response = (await caller.call(make_call(seconds=seconds))).response
    assert isinstance(response, Failed)
    assert "takes no messages now, since it is short of memory or disk" in response.message
    assert ".." not in response.message


async def test_a_call_that_waits_unwritten_is_not_given_up_with_the_mailbox(
    caller: BusCaller, transport: ToldTransport
) -> None:
    stuck = Stuck()
    transport.ends = [stuck]
    call = make_call()
    waiting = begin(caller, call)
    await eventually(lambda: transport.published)
    transport.renewed()
    stuck.set()
    transport.reply(call.call_id, 1)
    assert (await waiting).response == Completed(1)


async def test_a_reply_that_cannot_be_read_ends_its_call(caller: BusCaller, transport: ToldTransport) -> None:
    call = make_call()
    waiting = begin(caller, call)
    await eventually(lambda: transport.published)
    transport.receive(ToldDelivery(b"{}", call.call_id))
    assert failed(await waiting) == ("outcome_unknown", {"published": True})


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


async def test_who_gives_up_a_call_does_not_have_it_sent_again_later(
    caller: BusCaller, transport: ToldTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller._cancels, "send", lambda _: None)
    waiting = begin(caller, make_call(idempotent=True))
    await eventually(lambda: len(transport.published) == 1)
    await asyncio.sleep(0)
    transport.ends = [Stuck()]
    transport.renewed()
    await eventually(lambda: len(transport.published) == 2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await eventually(lambda: not caller._repeats)


# --- the same call twice ----------------------------------------------------------------------------------------------


async def test_one_reply_ends_all_calls_of_its_id(caller: BusCaller, transport: ToldTransport) -> None:
    """Answers are joined before they come here; any other id is given twice on purpose."""
    call = make_call()
    waiting = [begin(caller, call) for _ in range(3)]
    await eventually(lambda: len(transport.published) == 3)
    transport.reply(call.call_id, 1)
    assert [reply.response for reply in await asyncio.gather(*waiting)] == [Completed(1)] * 3
    transport.reply(call.call_id, 1)
    assert caller.late_replies == 1


async def test_a_call_that_is_given_up_is_forgotten_and_one_of_the_same_id_goes_on(
    caller: BusCaller, transport: ToldTransport
) -> None:
    call = make_call()
    first, second = begin(caller, call), begin(caller, call)
    await eventually(lambda: len(transport.published) == 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert caller.in_flight == 1
    transport.reply(call.call_id, 1)
    assert (await second).response == Completed(1)


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_closing_ends_what_waits_and_then_the_mailbox(transport: ToldTransport) -> None:
    caller = BusCaller(transport)
    await caller.open()
    await caller.open()
    transport.ends = [None, Stuck()]
    calls = [begin(caller, make_call()), begin(caller, make_call())]
    await eventually(lambda: len(transport.published) == 2)
    await caller.close()
    await caller.close()
    assert [failed(await each) for each in calls] == [
        ("outcome_unknown", {"published": True}),
        ("cancelled", None),
    ]
    with pytest.raises(TransportClosedError):
        await caller.call(make_call())


async def test_calls_do_not_change(caller: BusCaller, transport: ToldTransport) -> None:
    call = make_call(seconds=0.01)
    await caller.call(call)
    (sent,) = transport.published
    assert replace(sent, deadline=call.deadline, sent_at=call.sent_at) == call


# --- submitting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "published"),
    [
        (UnroutableError("no queue"), ProviderUnavailableError, None),
        (PublishForbiddenError("no"), ForbiddenError, None),
        (PublishRefusedError("full"), OverloadedError, None),
        (PublishExpiredError("late"), DeadlineExceededError, {"published": False}),
        (PublishUnsureError("cut"), OutcomeUnknownError, {"published": None}),
    ],
)
async def test_a_submission_that_cannot_be_published_is_raised(
    caller: BusCaller, transport: ToldTransport, error: TransportError, kind: type[CallError], published: object
) -> None:
    transport.ends = [error]
    with pytest.raises(kind) as raised:
        await caller.submit(make_call())
    assert raised.value.details == published


async def test_a_submission_returns_when_it_is_confirmed(caller: BusCaller, transport: ToldTransport) -> None:
    confirm = asyncio.Event()
    transport.ends = [confirm]
    call = make_call()
    submitting = asyncio.create_task(caller.submit(call))
    await eventually(lambda: transport.published)
    await asyncio.sleep(0.01)
    assert not submitting.done()
    confirm.set()
    submission = await submitting
    transport.reply(call.call_id, 1)
    assert submission.done
    assert (await submission.reply()).response == Completed(1)


async def test_a_submission_that_is_cancelled_before_its_confirm_is_forgotten(
    caller: BusCaller, transport: ToldTransport
) -> None:
    transport.ends = [asyncio.Event()]
    submitting = asyncio.create_task(caller.submit(make_call()))
    await eventually(lambda: transport.published)
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert caller.in_flight == 0


async def test_a_delayed_submission_does_not_wait_for_its_delay_to_be_published(
    caller: BusCaller, transport: ToldTransport
) -> None:
    call = make_call(seconds=3600 + 60)
    submission = await caller.submit(call, delay=3600)
    assert transport.deadlines == [call.deadline - 3600]
    transport.reply(call.call_id)
    assert submission.done


async def test_the_reply_of_a_submission_that_nobody_keeps_is_no_late_one(
    caller: BusCaller, transport: ToldTransport
) -> None:
    call = make_call()
    await caller.submit(call)
    await eventually(lambda: caller.in_flight == 0)
    assert transport.reply(call.call_id).settled == ["ack"]
    assert caller.late_replies == 0
    transport.reply(call.call_id)
    assert caller.late_replies == 1


async def test_a_submission_ends_by_its_deadline(caller: BusCaller, transport: ToldTransport) -> None:
    submission = await caller.submit(make_call(seconds=0.05))
    assert failed(await submission.reply()) == ("deadline_exceeded", {"published": True})


async def test_a_submission_that_has_ended_leaves_no_timer(caller: BusCaller, transport: ToldTransport) -> None:
    call = make_call()
    submission = await caller.submit(call)
    transport.reply(call.call_id)
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert submission.done
    assert all(timer.cancelled() for timer in scheduled)


async def test_a_call_waits_for_days_by_the_clock_of_its_bus() -> None:
    now, days = 1_000_000.0, 5 * 24 * 3600
    bus = MemoryBus(clock=lambda: now)
    transport = MemoryTransport(bus=bus, clock=lambda: now)
    running: list[Message] = []
    caller = BusCaller(transport)
    await caller.open()

    def receive(delivery: Delivery) -> None:
        running.append(delivery.message)
        delivery.ack()

    await transport.subscribe(transport.topology.call_queue("notes", "main"), receive, prefetch=1)
    call = replace(make_call(), deadline=now + days + 60)
    submission = await caller.submit(call, delay=days)
    for moment, count in ((now + days - 1, 0), (now + days, 1)):
        now = moment
        bus.tick()
        await asyncio.sleep(0.01)
        assert len(running) == count
        assert not submission.done
    route = transport.topology.reply_route(str(running[0].reply_to))
    body = encode_reply(Reply(call.call_id, Completed(1), "worker"))
    await transport.publish(route, Message(body, "reply"), deadline=now + 1)
    assert (await submission.reply()).response == Completed(1)
    await caller.close()
    await transport.close()
