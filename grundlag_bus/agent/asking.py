"""One request to a model: its reply, part by part and as a whole."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

from grundlag_bus.agent.declared import ensure_part, stream_of
from grundlag_bus.agent.feed import Feed
from grundlag_bus.agent.model import ModelReply, ReplyEnd, TextDelta, ToolCall
from grundlag_bus.errors import ModelError
from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from grundlag_bus.agent.model import Model, ModelPart, ModelRequest

_LOGGER = get_logger("grundlag_bus.agent")


class Asking:
    """Reads the model's stream in a coroutine of its own, so that it can be cancelled; iterating gives the text.

    Iterating raises ModelError for all that the model raises, and CancelledError after `feed.cancel()`.
    """

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self._model = model
        self._text: list[str] = []
        self._calls: list[ToolCall] = []
        self._end: ReplyEnd | None = None
        self._clock = time.monotonic()
        self.started_at = time.time()
        self.feed: Feed[ModelPart] = Feed()
        self.feed.start(self._read(request))

    def __aiter__(self) -> Asking:
        return self

    async def __anext__(self) -> TextDelta:
        async for part in self.feed:
            match part:
                case TextDelta(text):
                    self._text.append(text)
                    return part
                case ToolCall():
                    self._calls.append(part)
                case ReplyEnd():
                    self._end = part
        raise StopAsyncIteration

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._clock

    def reply(self) -> ModelReply:
        """Put the reply together, after the last part. Raises ModelError when it broke off."""
        end = self._end
        if end is None:
            raise ModelError(f"The reply of {self._model.name} broke off.", code="reply_invalid", retryable=True)
        return ModelReply("".join(self._text), tuple(self._calls), end.usage, end.cut, end.kept)

    async def _read(self, request: ModelRequest) -> None:
        name = self._model.name
        try:
            async with aclosing(stream_of(self._model, request)) as parts:
                async for part in parts:
                    ensure_part(self._model, part)
                    self.feed.tell(part)
        except ModelError:
            raise
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise ModelError(f"Something that the model {name} ran was cancelled.") from error
        except Exception as error:
            _LOGGER.exception("model_raised", model=name)
            raise ModelError(f"The model {name} raised {type(error).__name__}: the log has it.") from error


def is_being_cancelled() -> bool:
    """Tell whether somebody cancels the coroutine that asks."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
