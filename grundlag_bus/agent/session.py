"""Sessions as they were made before there were `AgentTools`: a run by another name, and the older pair of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from grundlag_bus.agent.results import MAX_BYTES, ToolResult, failed, unknown
from grundlag_bus.agent.run import MAX_TURNS, AgentRun
from grundlag_bus.agent.tools import ensure_name, is_runtime, outcome, read_arguments
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.json_schema import JsonValidator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grundlag_bus.agent.model import Model, ToolCall, ToolDescription
    from grundlag_bus.agent.strategy import Strategy
    from grundlag_bus.agent.tools import ToolRuntime
    from grundlag_bus.tools import ToolContext

    Dispatch: TypeAlias = Callable[[ToolCall, ToolContext], Awaitable[Any]]


def create_agent_session(  # noqa: PLR0913  what a session is made of
    *,
    model: Model,
    tools: ToolRuntime | Dispatch,
    strategy: Strategy | None = None,
    tool_list: Sequence[ToolDescription] | None = None,
    max_turns: int = MAX_TURNS,
    user_id: str | None = None,
    instructions: str | None = None,
) -> AgentRun:
    """Make a run of a model, a strategy and tools.

    tools: what has both methods, `list` and `execute`; or the older pair, an async function `(call, context)` that runs
    one call, with the descriptions of what it can run in `tool_list`. Raises ConfigurationError for anything between.
    """
    return AgentRun(
        model,
        _runtime(tools, tool_list),
        strategy=strategy,
        max_turns=max_turns,
        user_id=user_id,
        instructions=instructions,
    )


def _runtime(tools: Any, tool_list: Sequence[ToolDescription] | None) -> ToolRuntime:
    if is_runtime(tools):
        if tool_list is not None:
            raise ConfigurationError("The tools describe themselves: leave tool_list= out.")
        runtime: ToolRuntime = tools
        return runtime
    if not callable(tools):
        raise ConfigurationError(
            f"A {type(tools).__name__} cannot be the tools of a session: give it AgentTools(tools), "
            "or an async function (call, context) with tool_list=."
        )
    if tool_list is None:
        raise ConfigurationError("What the function given as tools= can run is not told: describe it in tool_list=.")
    return DispatchedTools(tools, tool_list)


class DispatchedTools:
    """A function that runs calls, and a list of what it can run, held together: what is not listed is not run."""

    def __init__(self, dispatch: Dispatch, tool_list: Sequence[ToolDescription], *, limit: int = MAX_BYTES) -> None:
        self._dispatch = dispatch
        self._listed = tuple(tool_list)
        self._limit = limit
        for tool in self._listed:
            ensure_name(tool.name)
        self._inputs = {tool.name: JsonValidator(tool.input) for tool in self._listed}

    def list(self) -> list[ToolDescription]:
        return list(self._listed)

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """See `ToolRuntime.execute`. What the function returns is the result, or a ToolResult of its own."""
        if call.name not in self._inputs:
            return unknown(call.name)
        arguments = read_arguments(call)
        if isinstance(arguments, ToolResult):
            return arguments
        if issues := self._inputs[call.name].issues(arguments):
            told = "; ".join(map(str, issues[:3]))
            return failed("input_invalid", f"The arguments of {call.name} are not valid: {told}", issues=issues)
        return await outcome(call, self._dispatch(call, context), limit=self._limit)
