"""The tools of an agent: one object says what a model is shown and runs what it calls, so that both never drift."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from grundlag_bus.agent.asking import is_being_cancelled
from grundlag_bus.agent.model import ToolCall, ToolDescription, callable_name, is_callable_name
from grundlag_bus.agent.results import MAX_BYTES, ToolResult, broken, completed, failed, raised, unknown
from grundlag_bus.errors import (
    AnswerInvalidError,
    CallCancelledError,
    CallError,
    ConfigurationError,
    Defer,
    Issue,
    NotJsonError,
)
from grundlag_bus.schema.codec import parse, plain
from grundlag_bus.tools import Tool, ToolContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

_NO_CONTEXT = ToolContext()


class ToolRuntime(Protocol):
    """What a run needs of tools. `AgentTools` is it for everything that is a `Tool`."""

    def list(self) -> list[ToolDescription]:
        """Describe what may be called, for a model."""

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call. Its failures are results; ToolInterrupt and cancellation are raised.

        A call that goes on after an interrupt has `context.resumption`; an answer that does not fit raises
        AnswerInvalidError.
        """


def is_runtime(tools: object) -> bool:
    """Tell what has both methods of a runtime from everything else, as a function or a map of tools."""
    return all(callable(getattr(tools, method, None)) for method in ("list", "execute"))


class AgentTools:
    """Tools as an agent is given them: of a bus, of a registry, or made by `define_tool`.

    names: those that it may use, of all that are given; limit: bytes of JSON that a result may take, beyond which it
    is shortened and says so. What is hidden here is hidden from nobody else.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool] | Iterable[Tool],
        names: Iterable[str] | None = None,
        *,
        limit: int = MAX_BYTES,
    ) -> None:
        given = dict(tools) if isinstance(tools, Mapping) else _by_id(tools)
        self._tools = given if names is None else _chosen(given, names)
        self._limit = limit
        for name in self._tools:
            ensure_name(name)

    def list(self) -> list[ToolDescription]:
        """Describe the tools, in their order; changing what is returned changes nothing here."""
        return [_described(name, tool) for name, tool in self._tools.items()]

    async def execute(self, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
        """See `ToolRuntime.execute`."""
        tool, context = self._tools.get(call.name), context or _NO_CONTEXT
        if tool is None:
            return unknown(call.name)
        arguments = read_arguments(call)
        if isinstance(arguments, ToolResult):
            return arguments
        running = tool.execute(arguments, context) if tool.provider_id else _stoppable(tool, arguments, context)
        return await outcome(call, running, limit=self._limit)


def ensure_name(name: str) -> None:
    """Raise ConfigurationError for a name that some vendor does not take."""
    if not is_callable_name(name):
        raise ConfigurationError(
            f"{name[:80]!r} is no name that models can call: take at most 64 letters, digits, '_' or '-', "
            f"such as {callable_name(name)!r}."
        )


def read_arguments(call: ToolCall) -> dict[str, Any] | ToolResult:
    """Read what a model wrote, or refuse it with the issue."""
    try:
        arguments = parse(call.arguments) if call.arguments.strip() else {}
    except NotJsonError as error:
        return _refused(call, error.issue)
    if type(arguments) is not dict:
        return _refused(call, Issue((), "type", f"must be a JSON object, not {type(arguments).__name__}"))
    return arguments


async def outcome(call: ToolCall, running: Awaitable[Any], *, limit: int) -> ToolResult:
    """Await what a call runs: every failure becomes a result, interrupts and cancellation pass."""
    try:
        value = await running
        return value if isinstance(value, ToolResult) else completed(call.name, value, limit)
    except AnswerInvalidError:
        raise  # it is the person's who answered, and leaves the interrupt pending
    except CallError as error:
        return raised(call, error, limit)
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        return broken(call, error)  # something that it ran was cancelled
    except (Exception, Defer) as error:  # noqa: BLE001  the model is told of it
        return broken(call, error)


async def _stoppable(tool: Tool, arguments: Any, context: ToolContext) -> Any:
    """Run a tool of this process so that the signal cancels it, as it does an action."""
    if context.signal is None:
        return await tool.execute(arguments, context)
    if context.signal.is_set():
        raise CallCancelledError(f"The call of {tool.id} was cancelled, before it started.")
    loop = asyncio.get_running_loop()
    working = loop.create_task(_execute(tool, arguments, context))
    asking = loop.create_task(context.signal.wait())
    try:
        await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
            if working.cancelled():
                raise CallCancelledError(f"The call of {tool.id} was cancelled, and has stopped.")
        return working.result()
    finally:
        asking.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
        if not working.cancelled():
            with suppress(asyncio.InvalidStateError):
                working.exception()  # it is seen


async def _execute(tool: Tool, arguments: Any, context: ToolContext) -> Any:
    return await tool.execute(arguments, context)


def _refused(call: ToolCall, issue: Issue) -> ToolResult:
    return failed("input_invalid", f"The arguments of {call.name} are not valid: {issue}", issues=(issue,))


def _described(name: str, tool: Tool) -> ToolDescription:
    return ToolDescription(
        name=name,
        description=tool.description or tool.name,
        input=plain(tool.input),
        parallel_safe=tool.parallel_safe,
        provider_id=tool.provider_id,
        action_id=tool.action_id,
    )


def _by_id(tools: Iterable[Tool]) -> dict[str, Tool]:
    given: dict[str, Tool] = {}
    for tool in tools:
        if given.setdefault(tool.id, tool) is not tool:
            raise ConfigurationError(f"Two tools are called {tool.id!r}: give one of them another id.")
    return given


def _chosen(given: Mapping[str, Tool], names: Iterable[str]) -> dict[str, Tool]:
    wanted = list(names)
    if missing := [name for name in wanted if name not in given]:
        raise ConfigurationError(
            f"There is no tool {', '.join(map(repr, missing))} to choose: take of {', '.join(sorted(given)) or 'none'}."
        )
    return {name: given[name] for name in wanted}
