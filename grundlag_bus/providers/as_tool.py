"""One action as a tool of this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.providers.provider import Provider
from grundlag_bus.providers.registry import ProviderRegistry
from grundlag_bus.tools import JoiningCaller, Tool, to_tools

if TYPE_CHECKING:
    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.services import ServiceRegistry


def to_tool(action: Action, services: ServiceRegistry | None = None) -> Tool:
    """Make a tool of one action, which runs it in this process with these services; its id is the action's."""
    provider = Provider("local", name="Local")
    provider.actions.register(action)
    registry = ProviderRegistry([provider], services=services)
    (tool,) = to_tools(registry.manifest(), JoiningCaller(LocalCaller(registry))).values()
    return replace(tool, id=action.id)
