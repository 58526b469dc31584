"""A model of pydantic-ai as a model of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model as VendorModel
from pydantic_ai.models import infer_model

from grundlag_bus.adapters.pydantic_ai.failures import model_error
from grundlag_bus.adapters.pydantic_ai.messages import calls_in, kept_of, parameters_of, to_messages
from grundlag_bus.agent import ReplyEnd, TextDelta, Usage
from grundlag_bus.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.settings import ModelSettings

    from grundlag_bus.agent import ModelPart, ModelRequest
    from grundlag_bus.agent.model import Cut


class PydanticAIModel:
    """Asks a model of pydantic-ai: `PydanticAIModel("openai:gpt-5")`, or with a model object of its own.

    settings: pydantic-ai's, such as {"temperature": 0}. Raises ConfigurationError for a model that it does not know, or
    whose key or package is missing. Whether a vendor's client tries again by itself is that client's setting.
    """

    def __init__(self, model: VendorModel | str, *, settings: ModelSettings | None = None) -> None:
        try:
            self._model = infer_model(model)
        except (UserError, ImportError, ValueError) as error:
            raise ConfigurationError(f"pydantic-ai cannot make the model {model!r}: {error}") from error
        self._settings = settings

    @property
    def name(self) -> str:
        return f"{self._model.system}:{self._model.model_name}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """See `Model.stream`."""
        try:
            async with model_request_stream(
                self._model,
                to_messages(request),
                model_settings=self._settings,
                model_request_parameters=parameters_of(request),
            ) as stream:
                async for event in stream:
                    if text := _text_of(event):
                        yield TextDelta(text)
                response = stream.get()
        except (AgentRunError, UserError) as error:
            raise model_error(self.name, error) from error
        cut = _cut(self.name, response)
        for call in calls_in(response):
            yield call
        usage = response.usage
        counted = Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
        yield ReplyEnd(counted, cut, kept_of(response))


def _text_of(event: ModelResponseStreamEvent) -> str:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


def _cut(name: str, response: ModelResponse) -> Cut | None:
    """Say why a reply is not whole. Raises ModelError for one that broke off."""
    if response.finish_reason == "length":
        return "length"
    if response.finish_reason == "content_filter":
        return "filtered"
    if response.finish_reason == "error" or response.state != "complete":
        raise ModelError(f"The reply of {name} broke off.", code="reply_invalid", retryable=True)
    return None
