"""The calls of one script that run, so many at once, and how each ends."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import AnswerInvalidError
from grundlag_bus.sandbox.script.outcomes import CallOutcome, outcome_of
from grundlag_bus.schema.envelope import derived_id
from grundlag_bus.tools import ToolResumption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.errors import ToolInterrupt
    from grundlag_bus.sandbox.script.engine import MadeCall
    from grundlag_bus.sandbox.script.history import CallState, History
    from grundlag_bus.tools import Tool, ToolContext


class Calls:
    """Starts calls in the order in which the script made them. refused: why an action itself refused an answer."""

    def __init__(self, tools: Mapping[str, Tool], context: ToolContext, history: History, in_flight: int) -> None:
        self._tools = tools
        self._context = replace(context, resumption=None)
        self._history = history
        self._room = in_flight
        self._queue: deque[MadeCall] = deque()
        self._known: set[int] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._error: BaseException | None = None
        self._ready = dict.fromkeys(history.undelivered())
        self.refused: AnswerInvalidError | None = None

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits to."""
        return bool(self._running or self._queue)

    def want(self, made: MadeCall) -> None:
        """Start a call, now or when there is room, unless it has ended before or asks a person."""
        state = self._history.calls.get(made.number)
        if made.number in self._known or (state is not None and not state.open):
            return
        self._known.add(made.number)
        self._queue.append(made)
        self._fill()

    async def take(self, pending: frozenset[int]) -> int | None:
        """Take the call of those pending that ended first and has something for the script, and write that down."""
        number = next((number for number in self._ready if number in pending), None)
        if number is not None:
            await self._history.deliver(number)
            del self._ready[number]
        return number

    async def change(self) -> None:
        """Wait until a call has ended, or `wake` was called. Raises what the journal raised."""
        await self._changed.wait()
        self._changed.clear()
        if self._error is not None:
            raise self._error

    def wake(self) -> None:
        self._changed.set()

    async def drain(self, *, within: float | None = None) -> None:
        """Start nothing more, and wait for what runs, for so many seconds at most."""
        self._queue.clear()
        if self._running:
            await asyncio.wait(self._running, timeout=within)
        if self._error is not None:
            raise self._error

    async def abort(self) -> None:
        """Cancel what runs and wait until it has ended, also when this is cancelled again."""
        self._queue.clear()
        again = False
        while self._running:
            for call in self._running:
                call.cancel()
            try:
                await asyncio.wait(self._running)
            except asyncio.CancelledError:
                again = True
        if again:
            raise asyncio.CancelledError

    # --- inside -------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while self._queue and len(self._running) < self._room:
            made = self._queue.popleft()
            running = asyncio.get_running_loop().create_task(self._run(made), name=f"script call {made.function}")
            self._running.add(running)
            running.add_done_callback(self._ended)

    def _ended(self, running: asyncio.Task[None]) -> None:
        self._running.discard(running)
        if not running.cancelled() and running.exception() is not None:
            self._error = running.exception()  # of the journal, or what ends the process
        self._fill()
        self._changed.set()

    async def _run(self, made: MadeCall) -> None:
        state = self._history.calls.get(made.number)
        if state is None:
            await self._history.call(made)
            state = self._history.calls[made.number]
        state.line = made.line
        outcome = await self._outcome(state)
        await self._history.settle(made.number, outcome)
        if outcome.answer is not None:
            self._ready[made.number] = None

    async def _outcome(self, state: CallState) -> CallOutcome:
        tool = self._tools[state.function]
        interrupt = None if state.outcome is None else state.outcome.interrupt
        if state.answer is None or interrupt is None:
            return await outcome_of(tool.execute(state.input, self._context_of(state)), state.input, state.function)
        answer, by = state.answer
        return await outcome_of(self._resume(tool, interrupt, answer, by), state.input, state.function)

    def _context_of(self, state: CallState) -> ToolContext:
        """Give a call the id that it has whenever the script is replayed, where the script has one."""
        if self._context.call_id is None:
            return self._context
        place = f"{state.number}.{state.edits}".encode()
        return replace(self._context, call_id=derived_id("call", self._context.call_id, place))

    async def _resume(self, tool: Tool, interrupt: ToolInterrupt, answer: Any, by: str | None) -> Any:
        resumption = ToolResumption(str(interrupt.interrupt_id), answer, interrupt.state, by or self._context.user_id)
        try:
            return await tool.execute(interrupt.input, replace(self._context, resumption=resumption))
        except AnswerInvalidError as error:
            self.refused = error
            raise interrupt from error  # it is pending as before
