"""An agent's request in pydantic-ai's words, and pydantic-ai's response in an agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pydantic_ai.messages as theirs
from pydantic import ValidationError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from grundlag_bus.agent import Prompt, Replied, Returned, ToolCall

if TYPE_CHECKING:
    from grundlag_bus.agent import ModelRequest

_KEPT = "pydantic-ai"


def parameters_of(request: ModelRequest) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.input)
        for tool in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def to_messages(request: ModelRequest) -> list[theirs.ModelMessage]:
    """Tell all that happened, with the instructions in front of it."""
    told: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = []
    for message in request.messages:
        match message:
            case Prompt(text):
                parts.append(theirs.UserPromptPart(text))
            case Returned(call_id, name, text, ok):
                outcome: Any = "success" if ok else "failed"
                parts.append(theirs.ToolReturnPart(name, text, call_id, outcome=outcome))
            case Replied():
                told += [theirs.ModelRequest(parts), _response(message)] if parts else [_response(message)]
                parts = []
    return [*told, theirs.ModelRequest(parts, instructions=request.instructions)]


def calls_in(response: theirs.ModelResponse) -> list[ToolCall]:
    return [
        ToolCall(part.tool_call_id, part.tool_name, _text(part.args))
        for part in response.parts
        if isinstance(part, theirs.ToolCallPart)
    ]


def kept_of(response: theirs.ModelResponse) -> Any:
    """Keep a response whose vendor wants more of it back than texts and calls, such as signed thoughts."""
    if all(_is_plain(part) for part in response.parts):
        return None
    return {_KEPT: theirs.ModelMessagesTypeAdapter.dump_python([response], mode="json")}


def _is_plain(part: theirs.ModelResponsePart) -> bool:
    return isinstance(part, theirs.TextPart | theirs.ToolCallPart) and not (part.id or part.provider_details)


def _response(replied: Replied) -> theirs.ModelResponse:
    kept = _kept(replied.kept)
    calls = list(replied.calls)
    if kept is None:
        texts: list[theirs.ModelResponsePart] = [theirs.TextPart(replied.text)] if replied.text else []
        return theirs.ModelResponse([*texts, *(_part(call) for call in calls)])
    return theirs.ModelResponse(
        [_renamed(part, calls) for part in kept.parts],
        model_name=kept.model_name,
        provider_name=kept.provider_name,
        provider_url=kept.provider_url,
        provider_response_id=kept.provider_response_id,
        provider_details=kept.provider_details,
        finish_reason=kept.finish_reason,
    )


def _kept(kept: Any) -> theirs.ModelResponse | None:
    """Read what was kept, where it was kept here and by a version that this one understands."""
    if not isinstance(kept, dict) or _KEPT not in kept:
        return None
    try:
        (response,) = theirs.ModelMessagesTypeAdapter.validate_python(kept[_KEPT])
    except (ValidationError, ValueError):
        return None
    return response if isinstance(response, theirs.ModelResponse) else None


def _renamed(part: theirs.ModelResponsePart, calls: list[ToolCall]) -> theirs.ModelResponsePart:
    """Give a call the id and the name by which the transcript knows it; they are in the same order there."""
    if isinstance(part, theirs.ToolCallPart) and calls:
        call = calls.pop(0)
        part.tool_call_id, part.tool_name = call.id, call.name
    return part


def _part(call: ToolCall) -> theirs.ToolCallPart:
    return theirs.ToolCallPart(call.name, call.arguments, call.id)


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
