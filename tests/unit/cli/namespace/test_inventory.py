from __future__ import annotations

import pytest

from grundlag_bus.cli.administration import check_namespace
from grundlag_bus.cli.namespace.inventory import announced, take_inventory
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.manifest import ActionManifest, Announcement, ProviderManifest
from grundlag_bus.transport import MemoryAdministration, MemoryBus, MemoryTransport, Message
from tests.support.transports import Inbox, in_time

ACTIONS = tuple(ActionManifest(id=lane, name=lane, lane=lane, input={}, output={}) for lane in ("main", "long"))


def announcement(provider_id: str) -> bytes:
    part = ProviderManifest(id=provider_id, name=provider_id, actions=ACTIONS)
    return Announcement(provider_id=provider_id, provider=part).encode()


def test_every_announcement_counts_also_of_who_is_gone() -> None:
    entries = [b"{}", announcement("notes"), Announcement(provider_id="old", retired=True).encode(), b"no json"]
    assert announced(entries) == [("notes", "long"), ("notes", "main"), ("old", "main")]


async def used(bus: MemoryBus) -> MemoryTransport:
    """Open a transport in a namespace that has all there can be."""
    transport = MemoryTransport(bus=bus)
    await transport.open()
    await transport.read(transport.topology.manifests)
    await transport.read(transport.topology.cancels)
    for lane in ("main", "long"):
        await (await transport.subscribe(transport.topology.call_queue("notes", lane), Inbox(), prefetch=1)).close()
    message = Message(announcement("notes"), "manifest")
    await transport.publish(transport.topology.manifests.route, message, deadline=in_time())
    route = transport.topology.delayed_call_route("notes", "main", 5)
    await transport.publish(route, Message(b"", "call"), deadline=in_time())
    return transport


async def test_what_waits_in_the_delay_ladder_is_in_use() -> None:
    bus = MemoryBus()
    transport = await used(bus)
    inventory = await take_inventory(MemoryAdministration(bus), transport.topology)
    assert inventory.used == ("grundlag.1.delay.02 (messages: 1, consumers: 0)",)


async def test_a_deletion_that_was_cut_off_anywhere_can_be_repeated() -> None:
    for kept in range(30, -1, -1):
        bus = MemoryBus()
        transport = await used(bus)
        administration = MemoryAdministration(bus)
        first = (await take_inventory(administration, transport.topology)).in_order
        for part in first[: len(first) - kept]:
            await administration.delete(part)
        if not kept:
            with pytest.raises(ConfigurationError, match="no namespace"):
                await check_namespace(administration, transport.topology)
            continue
        await check_namespace(administration, transport.topology)
        for part in (await take_inventory(administration, transport.topology)).in_order:
            await administration.delete(part)
        assert (bus._queues, bus._streams, bus._exchanges) == ({}, {}, {})
