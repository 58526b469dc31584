"""One action as a tool of this process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.providers.provider import Event, Provider, undeclared_event
from grundlag_bus.providers.registry import ProviderRegistry
from grundlag_bus.tools import JoiningCaller, Tool, to_tools

if TYPE_CHECKING:
    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.services import ServiceRegistry


def to_tool(action: Action, services: ServiceRegistry | None = None) -> Tool:
    """Make a tool of one action, which runs it in this process with these services; its id is the action's."""
    provider = _Lone("local", name="Local")
    provider.actions.register(action)
    registry = ProviderRegistry([provider], services=services)
    (tool,) = to_tools(registry.manifest(), JoiningCaller(LocalCaller(registry))).values()
    return replace(tool, id=action.id)


class _Lone(Provider):
    """A provider of one action that was taken out of its own, whose events are not known here and go nowhere."""

    def find_event(self, event: Event | str) -> Event:
        return undeclared_event(event) if isinstance(event, str) else event
