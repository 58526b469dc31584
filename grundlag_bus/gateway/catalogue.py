"""What there is to call, as of a moment ago, and the part of it that a user is shown."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grundlag_bus.errors import TransportError
from grundlag_bus.gateway.refusing import busy
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.manifest import Manifest
from grundlag_bus.tools import RemoteAction

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.adapters import Bus
    from grundlag_bus.gateway.allowing import AllowLists
    from grundlag_bus.schema.manifest import ActionManifest, ProviderManifest

FRESH_SECONDS = 5.0
"""How long a manifest is taken for what there is, where nothing contradicts it."""
PAUSE_SECONDS = 1.0
"""Between two looks, however many calls do not fit."""
_MOST_USERS = 1000

_LOGGER = get_logger("grundlag_bus.gateway")


@dataclass(frozen=True, slots=True)
class Shown:
    """A user's part of a manifest, as JSON, and the tag that changes with it."""

    manifest: Manifest
    body: bytes
    tag: str
    providers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A manifest that was read at a moment, with what was made of it since."""

    manifest: Manifest
    read_at: float
    actions: dict[tuple[str, str], RemoteAction]
    shown: dict[str | None, Shown] = field(default_factory=dict)


class Catalogue:
    """Reads the manifest when it is needed, once for all who ask at a time."""

    def __init__(self, bus: Bus, allow: AllowLists | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._bus = bus
        self._allow = allow
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._reading = asyncio.Lock()

    @property
    def restricts(self) -> bool:
        """Whether there are allow-lists."""
        return self._allow is not None

    def allows(self, user_id: str | None, provider_id: str, action_id: str) -> bool:
        """Whether the allow-lists let the user call the action, there or not."""
        return self._allow is None or self._allow.allow(user_id, provider_id, action_id)

    async def current(self, *, within: float = FRESH_SECONDS) -> Snapshot:
        """Return the manifest, read again if it is older than `within` seconds. Raises Refused where it cannot be."""
        snapshot = self._snapshot
        if snapshot is not None and self._clock() - snapshot.read_at <= within:
            return snapshot
        async with self._reading:
            snapshot = self._snapshot
            if snapshot is None or self._clock() - snapshot.read_at > within:
                snapshot = self._snapshot = await self._read(snapshot)
        return snapshot

    async def _read(self, before: Snapshot | None) -> Snapshot:
        read_at = self._clock()
        try:
            manifest = await self._bus.manifest()
        except TransportError as error:
            if before is not None:  # calls may still get through, and wait for the bus by themselves
                _LOGGER.warning("manifest_unavailable", reason=str(error))
                return Snapshot(before.manifest, read_at, before.actions, before.shown)
            raise busy(503, "The bus cannot be reached now: try again.", after=PAUSE_SECONDS) from error
        if before is not None and manifest == before.manifest:
            manifest, actions = before.manifest, before.actions
        else:
            actions = {
                (provider.id, action.id): RemoteAction(provider.id, action, self._bus.caller)
                for provider in manifest.providers
                for action in provider.actions
            }
        return Snapshot(manifest, read_at, actions)

    async def shown_to(self, user_id: str | None, *, within: float = FRESH_SECONDS) -> Shown:
        """Return the user's part: what the allow-lists and the registry's `authorize` leave."""
        snapshot = await self.current(within=within)
        shown = snapshot.shown.get(user_id)
        if shown is None:
            providers = [await self._part(user_id, provider) for provider in snapshot.manifest.providers]
            manifest = Manifest(providers=tuple(provider for provider in providers if provider is not None))
            body = manifest.encode()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            shown = Shown(manifest, body, tag, frozenset(provider.id for provider in manifest.providers))
            if len(snapshot.shown) < _MOST_USERS:
                snapshot.shown[user_id] = shown
        return shown

    async def _part(self, user_id: str | None, provider: ProviderManifest) -> ProviderManifest | None:
        """Return what the user is shown of a provider; None for nothing, then its events are not shown either."""
        actions = tuple([action for action in provider.actions if await self._shows(user_id, provider.id, action)])
        if actions == provider.actions:
            return provider
        return provider.model_copy(update={"actions": actions}) if actions else None

    async def _shows(self, user_id: str | None, provider_id: str, action: ActionManifest) -> bool:
        if not self.allows(user_id, provider_id, action.id):
            return False
        try:
            return await self._bus.shows(user_id, provider_id, action.id)
        except Exception:
            _LOGGER.exception("authorize_failed", provider=provider_id, action=action.id)
            return False
