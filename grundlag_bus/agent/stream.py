"""What `send` and its like return: to be awaited for the end, or iterated for every event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from grundlag_bus.agent.events import RunEnded
from grundlag_bus.errors import RunStateError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from grundlag_bus.agent.events import AgentEvent, RunResult


class RunEvents:
    """The events of a run until it ends. Nothing happens before it is awaited or iterated, once.

    `await` gives the RunResult; `async for` gives each event as it comes, RunEnded last, and `result` is there then.
    Leaving the loop earlier cancels the run: at once with `contextlib.aclosing`, else when this is collected.
    """

    def __init__(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        self._events = events
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """How it ended. Raises RunStateError before that."""
        if self._result is None:
            raise RunStateError("The run has not ended: iterate its events to the last, or await them.")
        return self._result

    def __await__(self) -> Generator[None, None, RunResult]:
        return self._to_the_end().__await__()

    async def _to_the_end(self) -> RunResult:
        try:
            async for _ in self:
                pass
        finally:
            await self.aclose()
        return self.result

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        event = await anext(self._events)
        if isinstance(event, RunEnded):
            self._result = event.result
        return event

    async def aclose(self) -> None:
        """Cancel the run if it still goes on, and wait until all that it ran has stopped."""
        await self._events.aclose()
