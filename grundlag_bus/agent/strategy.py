"""A strategy: the loop that turns a prompt, a model and tools into events."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grundlag_bus.agent.events import AgentEvent
    from grundlag_bus.agent.transcript import Transcript


class Steps(Protocol):
    """What a strategy can do. It passes on the events that it is given, each once, and may leave some out."""

    @property
    def transcript(self) -> Transcript:
        """All that happened so far, for reading."""

    def ask(self, *, instructions: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        """Ask the model for its next reply, which is in the transcript when this ends. Raises ModelError.

        instructions: for this request, in place of the run's own.
        """

    def call_tools(self) -> AsyncGenerator[AgentEvent, None]:
        """Run the calls of the last reply that have no result yet, until all have one or some wait for an answer."""


class Strategy(Protocol):
    """An async generator function.

    It starts anew whenever its run goes on, after an answer too, here or in another process: what it needs to know is
    in the transcript. When it ends while interrupts are pending, the run is interrupted; else it is completed.
    """

    def __call__(self, steps: Steps, /) -> AsyncGenerator[AgentEvent, None]: ...


async def call_until_answered(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
    """Call tools until the model calls none: the default."""
    while True:
        if not steps.transcript.open_calls:
            async with aclosing(steps.ask()) as events:
                async for event in events:
                    yield event
            if not steps.transcript.open_calls:
                return
        async with aclosing(steps.call_tools()) as events:
            async for event in events:
                yield event
        if steps.transcript.open_calls:
            return  # they wait for answers
