"""A model that replies as it is told: for tests, and for trying things out without a vendor."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, TypeAlias

from grundlag_bus.agent.model import ModelReply, ReplyEnd, TextDelta
from grundlag_bus.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from grundlag_bus.agent.model import ModelPart, ModelRequest

Scripted: TypeAlias = ModelReply | str | Exception
"""A reply, the text of one, or what the model raises instead."""

_WORD = re.compile(r"\s*\S+\s*|\s+")


class ScriptedModel:
    """Gives the replies of a list in turn, or what a function makes of each request. `requests` holds what was asked.

    Texts come word by word.
    """

    def __init__(
        self, replies: Iterable[Scripted] | Callable[[ModelRequest], Scripted], *, name: str = "scripted"
    ) -> None:
        self._name = name
        self._reply = replies if callable(replies) else _in_turn(list(replies))
        self.requests: list[ModelRequest] = []

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """See `Model.stream`."""
        self.requests.append(request)
        reply = self._reply(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            reply = ModelReply(reply)
        if not isinstance(reply, ModelReply):
            kind = "None" if reply is None else f"a {type(reply).__name__}"
            raise ModelError(
                f"The script of the model {self._name} gave {kind}: give a ModelReply, a text or an exception.",
                code="reply_invalid",
            )
        for word in _WORD.findall(reply.text):
            await asyncio.sleep(0)
            yield TextDelta(word)
        for call in reply.calls:
            yield call
        yield ReplyEnd(reply.usage, reply.cut, reply.kept)


def _in_turn(replies: list[Scripted]) -> Callable[[ModelRequest], Scripted]:
    remaining = iter(replies)

    def reply(_: ModelRequest) -> Scripted:
        end = ModelError(f"The script of {len(replies)} replies is over: give ScriptedModel one for each request.")
        return next(remaining, end)

    return reply
