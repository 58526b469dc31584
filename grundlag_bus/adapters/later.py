"""Calls that run in this process after a while, whether anybody waits for them or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.adapters.submission import Submission
from grundlag_bus.tools.endings import cancelled, ended_here, outcome_unknown

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call, Reply
    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.tools import Caller, ToolItems


class Later:
    """Starts calls when they are due, and ends what is left at its close."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._calls: set[_Planned] = set()

    def submit(
        self,
        call: Call,
        *,
        delay: float,
        items: ToolItems | None,
        on_progress: ProgressSink | None,
        cancel: asyncio.Event | None,
    ) -> Submission:
        """Start a call after `delay` seconds."""
        planned = _Planned(self._caller, call, on_progress)
        self._calls.add(planned)
        planned.reply.add_done_callback(lambda _: self._calls.discard(planned))
        planned.begin_after(delay)
        if cancel is not None:
            planned.listen(cancel)
        return Submission(call.call_id, planned.reply, planned.cancel, items)

    async def close(self) -> None:
        """End what is not due yet as `cancelled`, and what runs as `outcome_unknown`. Idempotent."""
        calls = list(self._calls)
        for planned in calls:
            planned.stop()
        await asyncio.gather(*(planned.reply for planned in calls), return_exceptions=True)


class _Planned:
    """A call that is not due, or runs."""

    def __init__(self, caller: Caller, call: Call, sink: ProgressSink | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[Reply] = self._loop.create_future()
        self._caller = caller
        self._call = call
        self._sink = sink
        self._cancel = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[Reply] | None = None

    def begin_after(self, delay: float) -> None:
        if delay > 0:
            self._timer = self._loop.call_later(delay, self._begin)
        else:
            self._begin()

    def listen(self, cancel: asyncio.Event) -> None:
        """Cancel the call when the signal is set."""
        asking = self._loop.create_task(self._when_cancelled(cancel))
        self.reply.add_done_callback(lambda _: asking.cancel())

    async def _when_cancelled(self, cancel: asyncio.Event) -> None:
        await cancel.wait()
        self.cancel()

    def cancel(self) -> None:
        self._cancel.set()
        self._do_not_begin()

    def stop(self) -> None:
        """End the call with the bus."""
        self._do_not_begin()
        if self._work is not None:
            self._work.cancel()

    def _do_not_begin(self) -> None:
        if self._work is None and not self.reply.done():
            if self._timer is not None:
                self._timer.cancel()
            self.reply.set_result(ended_here(self._call, cancelled(self._call, published=False)))

    def _begin(self) -> None:
        self._work = self._loop.create_task(self._caller.call(self._call, on_progress=self._sink, cancel=self._cancel))
        self._work.add_done_callback(self._end)

    def _end(self, work: asyncio.Task[Reply]) -> None:
        if work.cancelled():
            told = "its caller closed the bus while it ran"
            self.reply.set_result(ended_here(self._call, outcome_unknown(self._call, told, published=True)))
        elif (error := work.exception()) is not None:
            self.reply.set_exception(error)
            self.reply.exception()  # seen, also where nobody waits
        else:
            self.reply.set_result(work.result())
