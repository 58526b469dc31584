"""The same answer to an interrupt, given twice at once, is one call."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grundlag_bus.schema.envelope import Call, Failed, Reply
from grundlag_bus.tools.endings import deadline_exceeded, ended_here, outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.schema.progress import Progress, ProgressSink
    from grundlag_bus.tools.caller import Caller


LEEWAY = 1.0
"""Seconds after its deadline in which a call is to end by itself: to give it up would be to cancel it for good."""


class JoiningCaller:
    """Wraps a caller: resumptions of one call id that run at once run once, and each of their callers gets the reply.

    The id of a resumption is derived from all that it says, so that equal ids are equal calls. Each caller keeps its
    own deadline, and the last one that leaves gives the call up; one that asks for cancellation ends it for all.
    """

    def __init__(self, caller: Caller, *, clock: Callable[[], float] = time.time) -> None:
        self._caller = caller
        self._clock = clock
        self._running: dict[str, _Running] = {}

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        """See `Caller.call`."""
        if call.request.resumption is None:
            return await self._caller.call(call, on_progress=on_progress, cancel=cancel)
        while True:
            running = self._running.get(call.call_id)
            if running is None:
                running = self._running[call.call_id] = _Running(self._caller, call, watched=on_progress is not None)
                running.work.add_done_callback(lambda _: self._running.pop(call.call_id))
            leeway = LEEWAY if running.began_as is call else 0.0
            if not await running.wait(call.deadline - self._clock() + leeway, on_progress, cancel):
                return ended_here(call, deadline_exceeded(call, published=None))
            if running.given_up:
                continue  # by all who waited before
            if running.work.cancelled():
                return ended_here(call, outcome_unknown(call, "something that it ran cancelled it", published=None))
            reply = running.work.result()
            if running.began_as is not call and _is_late(reply) and self._clock() < call.deadline:
                continue  # it was somebody else's deadline
            return reply


def _is_late(reply: Reply) -> bool:
    """Whether the call's own deadline ended it, and no bound of its action, which holds for whoever asks."""
    match reply.response:
        case Failed("deadline_exceeded", details=details):
            return not {"idle", "limit"} & (details or {}).keys()
    return False


class _Running:
    __slots__ = ("_cancel", "_sinks", "began_as", "given_up", "waiting", "work")

    def __init__(self, caller: Caller, call: Call, *, watched: bool) -> None:
        self.began_as = call
        self._cancel = asyncio.Event()
        self._sinks: list[ProgressSink] = []
        self.work: asyncio.Task[Reply] = asyncio.get_running_loop().create_task(
            caller.call(call, on_progress=self._tell if watched else None, cancel=self._cancel)
        )
        self.waiting = 0
        self.given_up = False

    def _tell(self, progress: Progress) -> None:
        for sink in tuple(self._sinks):
            sink(progress)

    async def wait(self, seconds: float, sink: ProgressSink | None, cancel: asyncio.Event | None) -> bool:
        """Wait for the end, and return whether it came; whoever waits last and leaves ends the call."""
        self.waiting += 1
        if cancel is not None and cancel.is_set():
            self._cancel.set()  # before the call begins, if that is now
        asking = None if cancel is None else asyncio.get_running_loop().create_task(self._pass_on(cancel))
        if sink is not None:
            self._sinks.append(sink)
        try:
            done, _ = await asyncio.wait({self.work}, timeout=seconds)
            return bool(done)
        finally:
            if asking is not None:
                asking.cancel()
            if sink is not None:
                self._sinks.remove(sink)
            self.waiting -= 1
            if not self.waiting and not self.work.done():
                self.given_up = True
                self.work.cancel()
                await asyncio.wait({self.work})

    async def _pass_on(self, cancel: asyncio.Event) -> None:
        await cancel.wait()
        self._cancel.set()
