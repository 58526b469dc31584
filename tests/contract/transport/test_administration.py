"""What an operator does to a bus: take letters out and hold them, count, read what is there, delete."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from grundlag_bus.errors import BusUnreachableError, PublishForbiddenError, UnroutableError
from grundlag_bus.transport import Administration, Message, Transport
from grundlag_bus.transport.administration import Taken
from tests.support.transports import Inbox, OneBus, administration_of, in_time, send


@pytest.fixture
async def administration(transport: Transport) -> AsyncIterator[Administration]:
    opened = await administration_of(transport)
    yield opened
    await opened.close()


@pytest.fixture
async def another(transport: Transport) -> AsyncIterator[Administration]:
    opened = await administration_of(transport)
    yield opened
    await opened.close()


def dead(transport: Transport) -> str:
    return transport.topology.dead_queue.name


async def bury(transport: Transport, *bodies: bytes) -> None:
    for body in bodies:
        message = Message(body, "dead", correlation_id="c", reply_to="r")
        await transport.publish(transport.topology.dead_route, message, deadline=in_time())


def bodies(taken: list[Taken]) -> list[bytes]:
    return [one.message.body for one in taken]


async def test_taking_ends_at_the_end_without_waiting(transport: Transport, administration: Administration) -> None:
    await bury(transport, b"1", b"2", b"3")
    assert bodies(await administration.take(dead(transport), 2)) == [b"1", b"2"]
    assert bodies(await administration.take(dead(transport), 2)) == [b"3"]
    assert await administration.take(dead(transport), 2) == []


async def test_what_is_taken_is_as_it_was_published(transport: Transport, administration: Administration) -> None:
    await bury(transport, b"x" * 300_000)
    (taken,) = await administration.take(dead(transport), 1)
    assert taken.message == Message(b"x" * 300_000, "dead", correlation_id="c", reply_to="r")
    assert taken.death is None


async def test_what_is_held_is_given_to_nobody_else(
    transport: Transport, administration: Administration, another: Administration
) -> None:
    await bury(transport, b"1", b"2")
    await administration.take(dead(transport), 1)
    assert bodies(await another.take(dead(transport), 9)) == [b"2"]


async def test_closing_gives_back_what_is_held_in_its_order(
    transport: Transport, administration: Administration, another: Administration
) -> None:
    await bury(transport, *(b"%d" % number for number in range(30)))
    first, *_ = await another.take(dead(transport), 30)
    await first.hold.ack()
    await another.close()
    await eventually_taken(transport, administration, [b"%d" % number for number in range(1, 30)])


async def eventually_taken(transport: Transport, administration: Administration, wanted: list[bytes]) -> None:
    """Take until all is there again: a broker hears of a connection's end a moment later than we do."""
    taken: list[bytes] = []
    end = time.monotonic() + 10
    while len(taken) < len(wanted) and time.monotonic() < end:
        taken += bodies(await administration.take(dead(transport), 100))
    assert taken == wanted


async def test_only_the_first_settling_counts(transport: Transport, administration: Administration) -> None:
    await bury(transport, b"1", b"2")
    one, two = await administration.take(dead(transport), 2)
    assert one.hold.held
    await one.hold.ack()
    one.hold.nack()
    await one.hold.ack()
    two.hold.nack()
    assert [one.hold.held, two.hold.held] == [False, False]
    with pytest.raises(BusUnreachableError):
        await two.hold.ack()
    assert bodies(await administration.take(dead(transport), 9)) == [b"2"]


async def test_removing_what_is_held_no_more_is_told(transport: Transport, another: Administration) -> None:
    await bury(transport, b"1")
    (taken,) = await another.take(dead(transport), 1)
    await another.close()
    assert not taken.hold.held
    with pytest.raises(BusUnreachableError):
        await taken.hold.ack()


async def test_a_queue_that_is_not_there_holds_nothing(transport: Transport, administration: Administration) -> None:
    assert await administration.take(f"{dead(transport)}.nowhere", 1) == []
    assert await administration.count(f"{dead(transport)}.nowhere") is None


async def test_what_waits_and_who_consumes_is_counted(
    transport: Transport, peer: Transport, administration: Administration
) -> None:
    queue = transport.topology.call_queue("calendar", "main")
    assert await administration.count(queue.name) is None
    subscription = await peer.subscribe(queue, Inbox(), prefetch=1)
    await send(transport, b"1", b"2", b"3")
    counts = await administration.count(queue.name)
    assert counts is not None
    assert counts.consumers == 1
    await subscription.close()

    async def all_wait() -> bool:
        counts = await administration.count(queue.name)
        return counts is not None and (counts.messages, counts.consumers) == (3, 0)

    end = time.monotonic() + 10
    while not await all_wait():
        assert time.monotonic() < end


async def test_a_refused_message_says_where_it_was_and_when(
    transport: Transport, administration: Administration
) -> None:
    queue, inbox = transport.topology.call_queue("calendar", "main"), Inbox()
    await transport.subscribe(queue, inbox, prefetch=1)
    before = time.time()
    await send(transport, b"1")
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    death = (await one_dead(transport, administration)).death
    assert death is not None
    assert (death.reason, death.queue) == ("rejected", queue.name)
    assert before - 2 < death.at < time.time() + 2


async def test_a_delayed_message_that_nobody_takes_says_that_it_was_due(
    transport: Transport, administration: Administration
) -> None:
    await transport.publish(
        transport.topology.delayed_call_route("calendar", "main", 1), Message(b"1", "call"), deadline=in_time()
    )
    death = (await one_dead(transport, administration)).death
    assert death is not None
    assert death.reason == "expired"
    assert ".delay." in death.queue


async def test_the_newest_death_is_told_of_a_message_that_died_twice(
    transport: Transport, administration: Administration
) -> None:
    queue, inbox = transport.topology.call_queue("calendar", "main"), Inbox()
    await transport.subscribe(queue, inbox, prefetch=1)
    await transport.publish(
        transport.topology.delayed_call_route("calendar", "main", 1), Message(b"1", "call"), deadline=in_time()
    )
    await inbox.holds(1)
    inbox.deliveries[0].reject()
    death = (await one_dead(transport, administration)).death
    assert death is not None
    assert (death.reason, death.queue) == ("rejected", queue.name)


async def one_dead(transport: Transport, administration: Administration) -> Taken:
    end = time.monotonic() + 20
    while not (taken := await administration.take(dead(transport), 1)):
        assert time.monotonic() < end
    return taken[0]


async def test_a_stream_is_read_as_a_transport_reads_it(transport: Transport, administration: Administration) -> None:
    stream = transport.topology.manifests
    assert await administration.count(stream.name) is None
    await transport.read(stream)
    await transport.publish(stream.route, Message(b"1", "manifest"), deadline=in_time())
    assert await administration.read(stream) == [b"{}", b"1"]
    assert await administration.count(stream.name) is not None


async def test_deleting_takes_a_queue_with_all_it_holds_whoever_uses_it(
    transport: Transport, administration: Administration
) -> None:
    await bury(transport, b"1")
    inbox = Inbox()
    subscription = await transport.subscribe(transport.topology.dead_queue, inbox, prefetch=1)
    await inbox.holds(1)
    await subscription.stop()
    await administration.delete(transport.topology.dead_queue)
    await administration.delete(transport.topology.dead_queue)
    assert await administration.count(dead(transport)) is None
    await subscription.close()


async def test_deleting_takes_streams_and_exchanges(bus: OneBus) -> None:
    transport = await bus.open()
    administration = await administration_of(transport)
    await transport.read(transport.topology.manifests)
    await transport.subscribe(transport.topology.call_queue("calendar", "main"), Inbox(), prefetch=1)
    await administration.delete(transport.topology.manifests)
    await administration.delete(transport.topology.calls)
    await administration.delete(transport.topology.calls)
    assert await administration.count(transport.topology.manifests.name) is None
    with pytest.raises((UnroutableError, PublishForbiddenError)):
        await send(transport, b"1")
    await administration.close()
