"""What runs may call: the tools that the bus announces, made once for as long as it announces the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from grundlag_bus.errors import ActionUnknownError, ConfigurationError
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.tools import Tool, to_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grundlag_bus.adapters import Bus
    from grundlag_bus.sandbox.script import Limits
    from grundlag_bus.schema.manifest import ActionManifest, Manifest, ProviderManifest
    from grundlag_bus.tools import Caller

READ_AGAIN = 2.0
"""Seconds for which what was read of the bus is used."""


@dataclass(frozen=True, eq=False)
class Offer:
    """One manifest, as tools."""

    manifest: Manifest
    tools: dict[str, Tool]
    limits: Limits | None = None
    _by_ids: dict[tuple[str | None, str | None], Tool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_ids.update({(tool.provider_id, tool.action_id): tool for tool in self.tools.values()})

    @cached_property
    def sandbox(self) -> Sandbox:
        return Sandbox(self.tools, limits=self.limits)

    def sandbox_of(self, names: Iterable[str] | None) -> Sandbox:
        """Return one where these functions can be called, as far as they are announced; None: all of them."""
        if names is None:
            return self.sandbox
        return Sandbox(self.tools, allow=[name for name in names if name in self.tools], limits=self.limits)

    def find(self, provider_id: str, action_id: str) -> Tool | None:
        """Return a tool by what it is, whatever it is called now."""
        return self._by_ids.get((provider_id, action_id))


class Offers:
    """Reads them from the bus."""

    def __init__(self, bus: Bus, caller: Caller, *, clock: Callable[[], float], limits: Limits | None) -> None:
        self._bus = bus
        self._caller = caller
        self._clock = clock
        self._limits = limits
        self._turn = asyncio.Lock()
        self._read_at = 0.0
        self._offer: Offer | None = None

    async def now(self, *, fresh: bool = False) -> Offer:
        """Return what is offered. fresh: read it again. Raises TransportError."""
        async with self._turn:
            clock = asyncio.get_running_loop().time()
            if self._offer is None or fresh or clock - self._read_at > READ_AGAIN:
                manifest = await self._bus.manifest()
                if self._offer is None or manifest != self._offer.manifest:
                    tools = to_tools(manifest, self._caller, clock=self._clock)
                    self._offer = Offer(manifest, tools, self._limits)
                self._read_at = clock
            return self._offer

    async def function(self, name: str, *, without_ledger: bool) -> tuple[ProviderManifest, ActionManifest]:
        """Return what a run may call by a name. Raises ActionUnknownError, ConfigurationError."""
        found = (await self.now()).manifest.find_function(name)
        if found is None:
            found = (await self.now(fresh=True)).manifest.find_function(name)
        if found is None:
            raise ActionUnknownError(
                f"Nobody announced a function {name!r}: list what there is with `grundlag-bus tools`."
            )
        provider, action = found
        if provider.ledger is None and not action.idempotent and not without_ledger:
            raise ConfigurationError(
                f"Provider {provider.id!r} has no ledger, and a run's call of {action.id} could run twice: start its "
                "workers with one, declare the action idempotent, or make Runs(without_ledger=True)."
            )
        return found
