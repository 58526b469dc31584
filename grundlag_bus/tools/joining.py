"""The same answer to an interrupt, given twice at once, is one call."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grundlag_bus.schema.envelope import Call, Failed, Reply
from grundlag_bus.tools.endings import deadline_exceeded, ended_here, outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.tools.caller import Caller


class JoiningCaller:
    """Wraps a caller: resumptions of one call id that run at once run once, and each of their callers gets the reply.

    The id of a resumption is derived from all that it says, so that equal ids are equal calls. Each caller keeps its
    own deadline, and the last one that gives up ends the call.
    """

    def __init__(self, caller: Caller, *, clock: Callable[[], float] = time.time) -> None:
        self._caller = caller
        self._clock = clock
        self._running: dict[str, _Running] = {}

    async def call(self, call: Call) -> Reply:
        """See `Caller.call`."""
        if call.request.resumption is None:
            return await self._caller.call(call)
        while True:
            running = self._running.get(call.call_id)
            if running is None:
                running = self._running[call.call_id] = _Running(self._caller, call)
                running.work.add_done_callback(lambda _: self._running.pop(call.call_id))
            if not await running.wait(call.deadline - self._clock()):
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
    return isinstance(reply.response, Failed) and reply.response.code == "deadline_exceeded"


class _Running:
    __slots__ = ("began_as", "given_up", "waiting", "work")

    def __init__(self, caller: Caller, call: Call) -> None:
        self.began_as = call
        self.work: asyncio.Task[Reply] = asyncio.get_running_loop().create_task(caller.call(call))
        self.waiting = 0
        self.given_up = False

    async def wait(self, seconds: float) -> bool:
        """Wait for the end, and return whether it came; whoever waits last and leaves ends the call."""
        self.waiting += 1
        try:
            done, _ = await asyncio.wait({self.work}, timeout=seconds)
            return bool(done)
        finally:
            self.waiting -= 1
            if not self.waiting and not self.work.done():
                self.given_up = True
                self.work.cancel()
                await asyncio.wait({self.work})
