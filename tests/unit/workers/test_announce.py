"""Announcing: what the bus is told of a provider, and when."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import BaseModel

from grundlag_bus import MemoryTransport, Provider, ProviderRegistry
from grundlag_bus.schema.manifest import current
from grundlag_bus.workers.announce import announce, retire


class Nothing(BaseModel):
    pass


async def _act(_: Nothing) -> Nothing:
    return Nothing()


def registry(*action_ids: str, provider_id: str = "notes", revision: int = 0) -> ProviderRegistry:
    provider = Provider(provider_id, name="Notes")
    for action_id in action_ids:
        provider.action(action_id, name="Act")(_act)
    return ProviderRegistry([provider], revision=revision)


@pytest.fixture
async def transport() -> AsyncIterator[MemoryTransport]:
    transport = MemoryTransport()
    await transport.open()
    yield transport
    await transport.close()


async def entries(transport: MemoryTransport) -> list[bytes]:
    return await transport.read(transport.topology.manifests)


async def announced(transport: MemoryTransport) -> dict[str, list[str]]:
    newest = current(await entries(transport))
    return {
        provider_id: [action.id for action in told.provider.actions]
        for provider_id, told in newest.items()
        if told.provider is not None
    }


async def test_what_is_new_is_announced_and_what_is_known_is_not_repeated(transport: MemoryTransport) -> None:
    for _ in range(3):
        await announce(transport, registry("a"), worker="w")
    assert len(await entries(transport)) == 2  # the stream's own first entry, and one
    await announce(transport, registry("a", "b"), worker="w")
    await announce(transport, registry("x", provider_id="other"), worker="w")
    assert await announced(transport) == {"notes": ["a", "b"], "other": ["x"]}


async def test_an_older_revision_replaces_no_newer(transport: MemoryTransport) -> None:
    await announce(transport, registry("new", revision=2), worker="w")
    await announce(transport, registry("old", revision=1), worker="w")
    assert await announced(transport) == {"notes": ["new"]}
    assert len(await entries(transport)) == 2
    await announce(transport, registry("newer", revision=3), worker="w")
    assert await announced(transport) == {"notes": ["newer"]}


async def test_the_same_revision_with_another_content_replaces(transport: MemoryTransport) -> None:
    await announce(transport, registry("a", revision=1), worker="w")
    await announce(transport, registry("b", revision=1), worker="w")
    assert await announced(transport) == {"notes": ["b"]}


async def test_a_provider_is_retired_once_and_may_come_again(transport: MemoryTransport) -> None:
    await announce(transport, registry("a", revision=2), worker="w")
    await announce(transport, registry("x", provider_id="other"), worker="w")
    assert await retire(transport, "notes")
    assert not await retire(transport, "notes")
    assert not await retire(transport, "nobody")
    assert await announced(transport) == {"other": ["x"]}
    await announce(transport, registry("a", revision=2), worker="w")
    assert await announced(transport) == {"notes": ["a"], "other": ["x"]}
