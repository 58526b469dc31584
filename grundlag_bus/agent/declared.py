"""What a model and a runtime of the user's own give, held against what `Model` and `ToolRuntime` declare.

A model that breaks its word is a ModelError, and the run `failed`. A runtime that does is a ConfigurationError, raised
where the run is awaited: no model can do anything about it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from grundlag_bus.agent.model import ModelPart, ReplyEnd, TextDelta, ToolCall, ToolDescription, Usage
from grundlag_bus.agent.results import ToolResult
from grundlag_bus.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grundlag_bus.agent.model import Model, ModelRequest
    from grundlag_bus.agent.tools import ToolRuntime
    from grundlag_bus.tools import ToolContext


class RuntimeInvalidError(ConfigurationError):
    """A runtime breaks its word; apart from what its tools raise."""


def is_model(model: object) -> bool:
    """Tell what has a name and can stream from everything else, as a class or a function."""
    return isinstance(getattr(model, "name", None), str) and callable(getattr(model, "stream", None))


def stream_of(model: Model, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
    """Ask a model. Raises ModelError for what is no stream."""
    stream: Any = model.stream(request)
    if hasattr(stream, "__aiter__") and hasattr(stream, "aclose"):
        return stream  # type: ignore[no-any-return]  # it is looked at part by part
    if inspect.iscoroutine(stream):
        stream.close()
    raise _broken(f"stream() of the model {model.name}", stream, "write it as `async def` with `yield`")


def ensure_part(model: Model, part: object) -> None:
    """Raise ModelError for what is no part of a reply."""
    whose = f"stream() of the model {model.name}"
    if not isinstance(part, TextDelta | ToolCall | ReplyEnd):
        raise _broken(whose, part, "yield TextDelta and ToolCall, and a ReplyEnd last", gave="yielded")
    texts = {TextDelta: ("text",), ToolCall: ("id", "name", "arguments")}.get(type(part), ())
    for name in texts:
        if not isinstance(value := getattr(part, name), str):
            remedy = "ToolCall.of(name, arguments) writes them" if name == "arguments" else "give a text"
            raise _broken(whose, value, remedy, gave=f"yielded a {type(part).__name__} whose {name} is")
    if isinstance(part, ReplyEnd) and not isinstance(part.usage, Usage):
        raise _broken(whose, part.usage, "give a Usage", gave="yielded a ReplyEnd whose usage is")


def described(tools: ToolRuntime) -> list[ToolDescription]:
    """List the tools. Raises RuntimeInvalidError for what are no descriptions."""
    listed: Any = tools.list()
    whose, remedy = f"{type(tools).__name__}.list()", "return a list of ToolDescription"
    if inspect.iscoroutine(listed):
        listed.close()
        raise RuntimeInvalidError(f"{whose} is a coroutine: write it as a plain `def`.")
    if not isinstance(listed, list | tuple):
        raise RuntimeInvalidError(f"{whose} returned {_kind(listed)}: {remedy}.")
    for number, one in enumerate(listed):
        if not isinstance(one, ToolDescription):
            raise RuntimeInvalidError(f"{whose} returned {_kind(one)} at {number}: {remedy}.")
    return list(listed)


async def executed(tools: ToolRuntime, call: ToolCall, context: ToolContext) -> ToolResult:
    """Run one call. Raises RuntimeInvalidError for what is no result, and whatever `execute` raises."""
    running: Any = tools.execute(call, context)
    whose = f"{type(tools).__name__}.execute()"
    if not inspect.isawaitable(running):
        raise RuntimeInvalidError(f"{whose} returned {_kind(running)} and is no coroutine: write it as `async def`.")
    result: Any = await running
    if not isinstance(result, ToolResult):
        raise RuntimeInvalidError(f"{whose} returned {_kind(result)} for {call.name}: return a ToolResult.")
    return result


def _broken(whose: str, given: object, remedy: str, *, gave: str = "returned") -> ModelError:
    return ModelError(f"{whose} {gave} {_kind(given)}: {remedy}.", code="reply_invalid")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
