"""Tell the bus what a registry's providers offer, where that is not known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.schema.manifest import Announcement, current
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Transport

PUBLISH_WITHIN = 30.0
"""Seconds until an announcement that is not confirmed fails the start of its worker."""

_LOGGER = get_logger("grundlag_bus.workers")


async def announce(transport: Transport, registry: ProviderRegistry) -> None:
    """Publish each provider's manifest where it differs from the newest announcement and is of no older revision."""
    stream = transport.topology.manifests
    known = current(await transport.read(stream))
    for provider in registry.providers.values():
        ours = Announcement(provider_id=provider.id, revision=registry.revision, provider=provider.to_manifest())
        newest = known.get(provider.id)
        if newest is not None and newest.revision > ours.revision:
            _LOGGER.warning("older_revision", provider=provider.id, ours=ours.revision, announced=newest.revision)
        elif newest is None or newest.encode() != ours.encode():
            if newest is not None:
                _LOGGER.info("announcement_replaced", provider=provider.id, revision=ours.revision)
            deadline = transport.now() + PUBLISH_WITHIN
            await transport.publish(stream.route, Message(ours.encode(), "manifest"), deadline=deadline)


async def retire(transport: Transport, provider_id: str) -> bool:
    """Remove a provider from the manifest, and return whether it was there. Its queues stay."""
    stream = transport.topology.manifests
    newest = current(await transport.read(stream)).get(provider_id)
    if newest is None:
        return False
    gone = Announcement(provider_id=provider_id, revision=newest.revision, retired=True)
    await transport.publish(stream.route, Message(gone.encode(), "manifest"), deadline=transport.now() + PUBLISH_WITHIN)
    return True
