"""Run the calls of a reply: neighbours that are safe side by side, everything else one after the other."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from grundlag_bus.agent.declared import RuntimeInvalidError, described, executed
from grundlag_bus.agent.events import (
    AgentEvent,
    AnswerRefused,
    InterruptRaised,
    ToolEnded,
    ToolProgress,
)
from grundlag_bus.agent.feed import Feed
from grundlag_bus.agent.model import ToolCall
from grundlag_bus.agent.results import broken, failed, unknown
from grundlag_bus.errors import AnswerInvalidError, NotJsonError, ToolInterrupt
from grundlag_bus.schema.envelope import derived_id
from grundlag_bus.schema.refusal import short
from grundlag_bus.tools import ToolContext, ToolResumption

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.agent.model import ToolDescription
    from grundlag_bus.agent.records import CallRecord
    from grundlag_bus.agent.results import ToolResult
    from grundlag_bus.agent.tools import ToolRuntime
    from grundlag_bus.agent.transcript import Transcript
    from grundlag_bus.schema.progress import Progress

MOST_AT_ONCE = 16
"""Calls of one reply that run at the same time."""


def groups(calls: Iterable[CallRecord], tools: Iterable[ToolDescription]) -> list[list[CallRecord]]:
    """Cut calls into what may run at the same time: neighbours whose tools are declared `parallel_safe`."""
    safe = {tool.name for tool in tools if tool.parallel_safe}
    cut: list[list[CallRecord]] = []
    previous_is_safe = False
    for call in calls:
        is_safe = call.name in safe
        if is_safe and previous_is_safe:
            cut[-1].append(call)
        else:
            cut.append([call])
        previous_is_safe = is_safe
    return cut


def name_now(call: CallRecord, tools: Iterable[ToolDescription]) -> str | None:
    """Find the tool that a model called, also under another name than then; None where it is not there any more."""
    if call.provider_id is None:
        return call.name
    origin = (call.provider_id, call.action_id)
    names = [tool.name for tool in tools if (tool.provider_id, tool.action_id) == origin]
    return call.name if call.name in names else next(iter(names), None)


@dataclass(frozen=True)
class Calling:
    """Runs calls of one turn and writes down how each ends, at the moment that it does.

    call_id: what the ids of the calls are derived from.
    """

    tools: ToolRuntime
    transcript: Transcript
    turn: int
    user_id: str | None
    signal: asyncio.Event
    call_id: str | None = None
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))

    def start(self, calls: Iterable[CallRecord]) -> Feed[AgentEvent]:
        """Run calls side by side, which are written down as started. What they tell can be read from the feed."""
        feed: Feed[AgentEvent] = Feed()
        tools = described(self.tools)
        for call in calls:
            feed.start(self._run(call, name_now(call, tools), feed))
        return feed

    async def _run(self, record: CallRecord, name: str | None, feed: Feed[AgentEvent]) -> None:
        began = False
        try:
            async with self._slots:
                if not self.signal.is_set():
                    began = True
                    await self._execute(record, name, feed)
        finally:
            if not began:  # it was cancelled while it waited for its turn
                self.transcript.take_back(record)

    async def _execute(self, record: CallRecord, name: str | None, feed: Feed[AgentEvent]) -> None:
        call = record.value()
        started_at, clock = time.time(), time.monotonic()
        if name is None:
            result: ToolResult | None = unknown(call.name)
        else:
            result = await self._result(record, ToolCall(call.id, name, call.arguments), feed)
        if result is None:
            return
        seconds = time.monotonic() - clock
        try:
            self.transcript.end(record, result, seconds=seconds)
        except (NotJsonError, ValidationError) as error:
            result = failed("output_invalid", f"{call.name} returned what is no JSON data: {told_of(error)}")
            self.transcript.end(record, result, seconds=seconds)
        feed.tell(ToolEnded(self.turn, call, result, started_at, seconds))

    async def _result(self, record: CallRecord, call: ToolCall, feed: Feed[AgentEvent]) -> ToolResult | None:
        """Execute a call; None when it waits for an answer now."""
        interrupt = record.interrupts[-1] if record.interrupts else None
        try:
            return await executed(self.tools, call, self._context(record, feed))
        except RuntimeInvalidError:
            raise
        except ToolInterrupt as raised:
            try:
                asked = self.transcript.interrupt(record, raised)
            except (NotJsonError, ValidationError) as error:
                return failed("output_invalid", f"{call.name} asked with what is no JSON data: {told_of(error)}")
            feed.tell(InterruptRaised(self.turn, asked.value(record.value())))
        except AnswerInvalidError as error:
            if interrupt is None:
                return failed(error.code, error.message, issues=error.issues)
            self.transcript.refuse_answer(interrupt, error.issues)
            feed.tell(AnswerRefused(self.turn, interrupt.value(record.value())))
        except Exception as error:  # noqa: BLE001  a runtime of the user's own that makes no result of it
            return broken(call, error)
        return None

    def _context(self, record: CallRecord, feed: Feed[AgentEvent]) -> ToolContext:
        call, turn = record.value(), self.turn

        def on_progress(progress: Progress) -> None:
            feed.tell(ToolProgress(turn, call, progress))

        resumption = None
        interrupt = record.interrupts[-1] if record.interrupts else None
        if interrupt is not None and interrupt.answer is not None:
            given = interrupt.answer
            resumption = ToolResumption(interrupt.interrupt_id, given.value, interrupt.state, given.by)
        return ToolContext(
            user_id=self.user_id,
            resumption=resumption,
            items=self.transcript.items,
            signal=self.signal,
            on_progress=on_progress,
            call_id=None
            if self.call_id is None
            else derived_id("call", self.call_id, f"{record.id}.{record.edits}".encode()),
        )


def told_of(error: NotJsonError | ValidationError) -> str:
    """Tell the first place that is wrong."""
    if isinstance(error, NotJsonError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {short(first['msg'])}"
