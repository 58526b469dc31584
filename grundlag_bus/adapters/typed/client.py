"""The base of every typed client that was generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ActionUnknownError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.adapters.http.runs import HttpRuns
    from grundlag_bus.errors import ToolInterrupt
    from grundlag_bus.tools import Tool, ToolContext


class TypedClient:
    """Calls actions by tools, wherever those come from. Its methods are generated, one for each action.

    tools: as `bus.to_tools()` gives them. They are found by the ids of provider and action, since a function name may
    become another one when there are more providers. runs: `bus.runs`, where the bus leads to a host that has some.
    """

    def __init__(self, tools: Mapping[str, Tool], *, runs: HttpRuns | None = None) -> None:
        self._runs = runs
        self._tools = {(tool.provider_id, tool.action_id): tool for tool in tools.values()}

    @property
    def runs(self) -> HttpRuns:
        """The durable runs of the host. Raises ConfigurationError where none were given."""
        if self._runs is None:
            raise ConfigurationError("This client was given no runs: make it with runs=bus.runs.")
        return self._runs

    async def _execute(self, provider_id: str, action_id: str, value: Any, context: ToolContext | None) -> Any:
        return await self._tool(provider_id, action_id).execute(value, context)

    async def _resume(  # noqa: PLR0913  what an answer needs
        self,
        provider_id: str,
        action_id: str,
        interrupt: ToolInterrupt,
        answer: Any,
        context: ToolContext | None,
        *,
        by: str | None,
    ) -> Any:
        return await self._tool(provider_id, action_id).resume(interrupt, answer, context, by=by)

    def _tool(self, provider_id: str, action_id: str) -> Tool:
        tool = self._tools.get((provider_id, action_id))
        if tool is None:
            raise ActionUnknownError(
                f"No tool calls {provider_id}.{action_id}: it is not announced any more, or its tool was not given. "
                "See whether the client has to be generated anew."
            )
        return tool
