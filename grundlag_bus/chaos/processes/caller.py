"""A caller: makes its calls at a rate, and writes down what becomes of each.

`python -m grundlag_bus.chaos.processes.caller CONFIG` first ends what its predecessors left, then goes on where the
last one stopped. It ends by itself when its time is over and every call has ended.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.adapters.bus_caller import BusCaller
from grundlag_bus.chaos.history import CALLER_DIED, Attempted, Ended, Told, read_all
from grundlag_bus.chaos.load import answer_of, asks, call_of, fits, how, plan
from grundlag_bus.chaos.processes.living import live
from grundlag_bus.chaos.processes.noting import NotingTransport
from grundlag_bus.chaos.succession import take_over
from grundlag_bus.errors import CallError
from grundlag_bus.schema.envelope import Failed, Reply

if TYPE_CHECKING:
    from grundlag_bus.chaos.load import Plan
    from grundlag_bus.chaos.processes.living import Life
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.schema.progress import Progress

_CATCHES_UP = 0.5
"""Seconds: what was not begun in time before that is not made up for."""


async def work(life: Life) -> None:
    """Call until the time is over."""
    config = life.config
    legacy = take_over(read_all(Path(config.folder), config.name))
    transport = NotingTransport(config.url, namespace=config.namespace, note=life.history.write)
    caller = BusCaller(transport)
    await caller.open()
    try:
        life.begin()
        for call_id in legacy.died:
            life.history.write(Ended(time.monotonic(), call_id, CALLER_DIED, "caller"))
        calling = _Calling(life, caller, transport)
        async with asyncio.TaskGroup() as calls:
            for left in legacy.again:
                await calling.turn(calls, left.ordinal, left.asks, left.first)
            await calling.go_on(calls, legacy.next_ordinal)
    finally:
        await caller.close()
        await transport.close()
    life.end(late=caller.late_replies)


class _Calling:
    def __init__(self, life: Life, caller: BusCaller, transport: NotingTransport) -> None:
        self._life = life
        self._config = life.config
        self._note = life.history.write
        self._caller = caller
        self._transport = transport
        self._free = asyncio.Semaphore(self._config.at_once)

    async def go_on(self, calls: asyncio.TaskGroup, ordinal: int) -> None:
        """Begin calls at the rate, as far as there is room in flight."""
        due = time.monotonic()
        while not (self._config.over.exists() or self._life.stop.is_set()):
            await asyncio.sleep(due - time.monotonic())
            await self.turn(calls, ordinal)
            ordinal += 1
            due = max(due + 1 / self._config.rate, time.monotonic() - _CATCHES_UP)

    async def turn(
        self,
        calls: asyncio.TaskGroup,
        ordinal: int,
        asked: dict[str, Any] | None = None,
        first: str | None = None,
    ) -> None:
        """Wait for room, and begin the call of this number; asked: begin with the answer to what it asked."""
        await self._free.acquire()
        calls.create_task(self._call(ordinal, asked, first)).add_done_callback(lambda _: self._free.release())

    async def _call(self, ordinal: int, asked: dict[str, Any] | None, first: str | None) -> None:
        config = self._config
        planned = plan(config.seed, config.name, ordinal, kept_share=config.kept_share)
        if asked is None:
            call = call_of(
                planned, run=config.run, caller=config.name, now=self._transport.now(), timeout=config.timeout
            )
            asked, first = await self._end(planned, call, None), call.call_id
        if asked is not None:
            answer = answer_of(planned, asked, now=self._transport.now(), timeout=config.timeout)
            await self._end(planned, answer, first)

    async def _end(self, planned: Plan, call: Call, answers: str | None) -> dict[str, Any] | None:
        """Make a call and write down how it ended; return what it asked."""
        now = time.monotonic()
        queue = self._transport.topology.call_queue(call.provider_id, call.lane).name
        self._note(
            Attempted(
                now,
                call.call_id,
                self._config.name,
                planned.ordinal,
                planned.kind,
                planned.kept,
                planned.repeatable,
                queue,
                now + self._config.timeout,
                answers,
            )
        )
        reply = await self._send(planned, call)
        response = reply.response
        result = getattr(response, "result", None) or {}
        self._life.calls += 1
        self._note(
            Ended(
                time.monotonic(),
                call.call_id,
                how(response),
                reply.worker,
                fits(planned, call, response) and reply.call_id == call.call_id,
                result.get("fence"),
                response.message if isinstance(response, Failed) else None,
                asks(response),
            )
        )
        return asks(response)

    async def _send(self, planned: Plan, call: Call) -> Reply:
        sink = _Sink(self._life, call.call_id) if planned.watched else None
        if planned.submitted:
            try:
                submission = await self._caller.submit(call, on_progress=sink)
            except CallError as error:
                return Reply(call.call_id, Failed(error.code, error.message), "caller")
            return await submission.reply()
        if planned.cancel_after is None:
            return await self._caller.call(call, on_progress=sink)
        cancel = asyncio.Event()
        timer = asyncio.get_running_loop().call_later(planned.cancel_after, cancel.set)
        try:
            return await self._caller.call(call, cancel=cancel)
        finally:
            timer.cancel()


class _Sink:
    """Notes that a call was heard of, once."""

    def __init__(self, life: Life, call_id: str) -> None:
        self._life = life
        self._call_id = call_id
        self._told = False

    def __call__(self, _: Progress) -> None:
        if not self._told:
            self._told = True
            self._life.history.write(Told(time.monotonic(), self._call_id))


if __name__ == "__main__":
    live(work)
