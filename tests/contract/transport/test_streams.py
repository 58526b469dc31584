"""Streams: a log that every reader reads from its start."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus.errors import UnroutableError
from grundlag_bus.transport import Message, Transport
from tests.support.transports import Inbox, OneBus, in_time


async def announce(transport: Transport, *entries: bytes) -> None:
    for entry in entries:
        await transport.publish(transport.topology.manifests.route, Message(entry, "manifest"), deadline=in_time())


async def test_a_fresh_stream_holds_one_empty_entry(transport: Transport, peer: Transport) -> None:
    assert await transport.read(transport.topology.manifests) == [b"{}"]
    assert await peer.read(peer.topology.manifests) == [b"{}"]


async def test_a_stream_that_nobody_declared_is_unroutable(transport: Transport) -> None:
    with pytest.raises(UnroutableError):
        await announce(transport, b"[1]")


async def test_readers_everywhere_see_all_entries_in_order(transport: Transport, peer: Transport) -> None:
    await transport.read(transport.topology.manifests)
    await announce(transport, b"[1]", b"[2]")
    await announce(peer, b"[3]")
    for reader in (transport, peer, transport):
        assert await reader.read(reader.topology.manifests) == [b"{}", b"[1]", b"[2]", b"[3]"]


async def test_a_confirmed_entry_is_read_at_once(transport: Transport, peer: Transport) -> None:
    expected = await transport.read(transport.topology.manifests)
    for number in range(10):
        entry = b"[%d]" % number
        expected.append(entry)
        await announce(transport, entry)
        assert await peer.read(peer.topology.manifests) == expected


async def test_a_long_stream_is_read_whole(transport: Transport, peer: Transport) -> None:
    await transport.read(transport.topology.manifests)
    entries = [b"%d" % number + b"x" * 3000 for number in range(400)]
    await announce(transport, *entries)
    assert await peer.read(peer.topology.manifests) == [b"{}", *entries]


async def test_two_read_at_once(transport: Transport, peer: Transport) -> None:
    await transport.read(transport.topology.manifests)
    await announce(transport, b"[1]", b"[2]")
    readings = await asyncio.gather(*(reader.read(reader.topology.manifests) for reader in (transport, peer) * 3))
    assert readings == [[b"{}", b"[1]", b"[2]"]] * 6


async def test_two_that_meet_a_fresh_stream_both_read_it(transport: Transport, peer: Transport) -> None:
    """Both may have declared it and written its first entry."""
    readings = await asyncio.gather(*(reader.read(reader.topology.manifests) for reader in (transport, peer)))
    assert all(reading in ([b"{}"], [b"{}"] * 2) for reading in readings)


async def test_what_was_read_is_the_reader_s_own(transport: Transport) -> None:
    (await transport.read(transport.topology.manifests)).clear()
    assert await transport.read(transport.topology.manifests) == [b"{}"]


# --- bound to an exchange ---------------------------------------------------------------------------------------------


async def cancel(transport: Transport, body: bytes) -> None:
    await transport.publish(transport.topology.control_route("cancel"), Message(body, "cancel"), deadline=in_time())


async def test_one_publish_reaches_the_stream_and_every_queue(transport: Transport, peer: Transport) -> None:
    assert await transport.read(transport.topology.cancels) == [b"{}"]
    inboxes = [Inbox(ack=True), Inbox(ack=True)]
    await transport.subscribe(transport.topology.control_queue("one"), inboxes[0], prefetch=0)
    await peer.subscribe(peer.topology.control_queue("two"), inboxes[1], prefetch=0)
    await cancel(peer, b"[1]")
    for inbox in inboxes:
        assert await inbox.holds(1) == [b"[1]"]
    assert await transport.read(transport.topology.cancels) == [b"{}", b"[1]"]


async def test_a_stream_takes_only_what_it_is_bound_to(transport: Transport) -> None:
    await transport.read(transport.topology.cancels)
    inbox = Inbox(ack=True)
    await transport.subscribe(transport.topology.control_queue("one"), inbox, prefetch=0)
    await transport.publish(transport.topology.control_route("ping"), Message(b"[1]", "ping"), deadline=in_time())
    assert await inbox.holds(1) == [b"[1]"]
    assert await transport.read(transport.topology.cancels) == [b"{}"]


async def test_the_stream_takes_what_is_published_while_nobody_listens(transport: Transport, bus: OneBus) -> None:
    await transport.read(transport.topology.cancels)
    await cancel(transport, b"[1]")
    await cancel(transport, b"[2]")
    await transport.close()
    later = await bus.open()
    assert await later.read(later.topology.cancels) == [b"{}", b"[1]", b"[2]"]


async def test_an_exchange_without_a_stream_or_a_queue_is_unroutable(transport: Transport) -> None:
    with pytest.raises(UnroutableError):
        await cancel(transport, b"[1]")


async def test_a_long_stream_is_read_to_its_end(transport: Transport, peer: Transport) -> None:
    await transport.read(transport.topology.manifests)
    entries = [b"[%d]" % number for number in range(3000)]
    await asyncio.gather(*(announce(transport, entry) for entry in entries))
    assert await peer.read(peer.topology.manifests) == [b"{}", *entries]
