"""The steps of one run, as its strategy takes them: ask the model, call tools."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from grundlag_bus.agent.asking import Asking, is_being_cancelled
from grundlag_bus.agent.calling import Calling, groups, told_of
from grundlag_bus.agent.declared import described
from grundlag_bus.agent.events import AgentEvent, ReplyEnded, ToolStarted, TurnEnded
from grundlag_bus.agent.feed import Feed
from grundlag_bus.agent.model import ModelRequest
from grundlag_bus.errors import ModelError, NotJsonError, RunStateError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grundlag_bus.agent.events import RunStatus
    from grundlag_bus.agent.model import Model
    from grundlag_bus.agent.tools import ToolRuntime
    from grundlag_bus.agent.transcript import Transcript


class RunStopped(BaseException):
    """The run ends here, as `status`: no `except Exception` of a strategy may swallow it."""

    def __init__(self, status: RunStatus) -> None:
        super().__init__(status)
        self.status = status


class RunSteps:
    """What happens between two ends of a run. See `Steps`."""

    def __init__(  # noqa: PLR0913  what a step needs
        self,
        model: Model,
        tools: ToolRuntime,
        transcript: Transcript,
        *,
        max_turns: int,
        user_id: str | None,
        instructions: str | None,
        call_id: str | None,
    ) -> None:
        self._model = model
        self._tools = tools
        self._transcript = transcript
        self._max_turns = max_turns
        self._user_id = user_id
        self._instructions = instructions
        self._call_id = call_id
        self._signal = asyncio.Event()
        self._feed: Feed[Any] = Feed()
        self._asking = False

    @property
    def transcript(self) -> Transcript:
        return self._transcript

    @property
    def cancelled(self) -> bool:
        return self._signal.is_set()

    def cancel(self) -> None:
        """End what runs: a request to the model at once, a tool as soon as it has stopped."""
        self._signal.set()
        if self._asking:
            self._feed.cancel()

    async def close(self) -> None:
        """Cancel whatever still runs, also where a strategy left a step before its end."""
        await self._feed.stop()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def ask(self, *, instructions: str | None = None) -> AsyncGenerator[AgentEvent, None]:
        """See `Steps.ask`."""
        transcript = self._transcript
        if transcript.open_calls:
            raise RunStateError("The last reply has calls without a result: call_tools() before the next ask().")
        self._stop_if_cancelled()
        if transcript.turns_since_prompt >= self._max_turns:
            raise RunStopped("max_turns")
        await self._feed.stop()
        tools = described(self._tools)
        request = ModelRequest(transcript.messages(), tuple(tools), instructions or self._instructions)
        asking = Asking(self._model, request)
        self._feed, self._asking = asking.feed, True
        try:
            async for delta in asking:
                yield delta
        except asyncio.CancelledError:
            if self.cancelled and not is_being_cancelled():
                raise RunStopped("cancelled") from None
            raise
        finally:
            self._asking = False
            await asking.feed.stop()
        reply, seconds = asking.reply(), asking.seconds
        try:
            record = transcript.add_reply(reply, model=self._model.name, tools=tools, seconds=seconds)
        except (NotJsonError, ValidationError) as error:
            told = f"The reply of the model {self._model.name} cannot be kept: {told_of(error)}"
            raise ModelError(told, code="reply_invalid") from error
        turn = len(transcript.replies)
        yield ReplyEnded(turn, record.value(), asking.started_at, seconds)
        if not record.calls:
            yield TurnEnded(turn, reply.usage)

    def _stop_if_cancelled(self) -> None:
        if self.cancelled:
            raise RunStopped("cancelled")

    # --- calling ------------------------------------------------------------------------------------------------------

    async def call_tools(self) -> AsyncGenerator[AgentEvent, None]:
        """See `Steps.call_tools`.

        A call is said to start, and is written down so, before it does: whoever keeps the run at each event never keeps
        less than what was called.
        """
        transcript = self._transcript
        if not (replies := transcript.replies) or not transcript.open_calls:
            return
        turn, reply = len(replies), replies[-1]
        calling = Calling(self._tools, transcript, turn, self._user_id, self._signal, self._call_id)
        for group in groups(reply.calls, described(self._tools)):
            ready = [call for call in group if call.result is None and call.pending is None]
            try:
                for call in ready:
                    transcript.start(call)
                    yield ToolStarted(turn, call.value(), resumed=bool(call.interrupts))
                self._stop_if_cancelled()
            except BaseException:  # also when the run is left here
                for call in ready:
                    transcript.take_back(call)
                raise
            await self._feed.stop()
            self._feed = feed = calling.start(ready)
            try:
                async for event in feed:
                    yield event
            finally:
                await feed.stop()
            self._stop_if_cancelled()
            if any(call.pending is not None for call in group):
                return  # what comes after may build on it
        yield TurnEnded(turn, reply.usage.value())
