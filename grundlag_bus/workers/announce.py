"""Tell the bus what a registry's providers offer, where that is not known yet.

A newer revision replaces an older one. Of equal revisions nobody knows which is the newer: while another worker of the
provider answers, an announcement may add and change actions, and takes none away that may be that worker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.manifest import Announcement, current
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.roll_call import roll_call

if TYPE_CHECKING:
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Transport

PUBLISH_WITHIN = 30.0
"""Seconds until an announcement that is not confirmed fails the start of its worker."""

ANSWER_WITHIN = 1.0
"""Seconds that other workers get to say that they are there."""

_LOGGER = get_logger("grundlag_bus.workers")


async def check_ledger(transport: Transport, registry: ProviderRegistry, ledger_id: str | None) -> None:
    """Raise ConfigurationError where a provider's workers have another ledger than the one of this id (None: none)."""
    for provider_id, told in current(await transport.read(transport.topology.manifests)).items():
        theirs = None if told.provider is None else told.provider.ledger
        if provider_id in registry.providers and theirs is not None and theirs != ledger_id:
            ours = "this one has none" if ledger_id is None else f"this one has another ({ledger_id})"
            raise ConfigurationError(
                f"The workers of provider {provider_id!r} share a ledger ({theirs}), and {ours}: start it with theirs "
                f"(--ledger URL), or stop them all and run `grundlag-bus manifest retire {provider_id}` first."
            )


async def announce(
    transport: Transport, registry: ProviderRegistry, *, worker: str, ledger_id: str | None = None
) -> None:
    """Publish each provider's manifest where it differs from the newest announcement and is of no older revision.

    worker: the name of the one that announces.
    """
    stream = transport.topology.manifests
    known = current(await transport.read(stream))
    for provider in registry.providers.values():
        part = provider.to_manifest()
        if ledger_id is not None:
            part = part.model_copy(update={"ledger": ledger_id})
        ours = Announcement(provider_id=provider.id, revision=registry.revision, provider=part)
        newest = known.get(provider.id)
        if newest is not None and newest.revision > ours.revision:
            _LOGGER.warning("older_revision", provider=provider.id, ours=ours.revision, announced=newest.revision)
            continue
        if newest is not None and newest.revision == ours.revision:
            ours = await _keeping(ours, newest, transport, worker)
        if newest is None or newest.encode() != ours.encode():
            if newest is not None:
                _LOGGER.info("announcement_replaced", provider=provider.id, revision=ours.revision)
            deadline = transport.now() + PUBLISH_WITHIN
            await transport.publish(stream.route, Message(ours.encode(), "manifest"), deadline=deadline)


async def _keeping(ours: Announcement, newest: Announcement, transport: Transport, worker: str) -> Announcement:
    """Add the actions that are announced and not ours, where another worker may have them."""
    if ours.provider is None or newest.provider is None:
        return ours
    ids = {action.id for action in ours.provider.actions}
    others = tuple(action for action in newest.provider.actions if action.id not in ids)
    if not others or not await _others_serve(ours.provider_id, transport, worker):
        return ours
    _LOGGER.warning(
        "actions_kept",
        provider=ours.provider_id,
        actions=[action.id for action in others],
        revision=ours.revision,
        hint="give the newer registry a higher revision, which says what replaces what",
    )
    together = sorted((*ours.provider.actions, *others), key=lambda action: action.id)
    provider = ours.provider.model_copy(update={"actions": tuple(together)})
    return ours.model_copy(update={"provider": provider})


async def _others_serve(provider_id: str, transport: Transport, worker: str) -> bool:
    found = await roll_call(transport, within=ANSWER_WITHIN)
    return any(provider_id in status.providers and status.name != worker for status in found)


async def retire(transport: Transport, provider_id: str) -> bool:
    """Remove a provider from the manifest, and return whether it was there. Its queues stay."""
    stream = transport.topology.manifests
    newest = current(await transport.read(stream)).get(provider_id)
    if newest is None:
        return False
    gone = Announcement(provider_id=provider_id, revision=newest.revision, retired=True)
    await transport.publish(stream.route, Message(gone.encode(), "manifest"), deadline=transport.now() + PUBLISH_WITHIN)
    return True
