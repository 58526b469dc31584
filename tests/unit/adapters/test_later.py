"""Calls that are planned in this process, with a caller that does what a test tells it to."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from grundlag_bus import Call, Completed, Failed, Reply, Request, Submission, TransportClosedError
from grundlag_bus.adapters.later import Later
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.progress import ProgressSink


class ToldCaller:
    """Ends a call by raising `error`, or when `end` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started = 0
        self.end = asyncio.Event()
        self._error = error

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        self.started += 1
        if self._error is not None:
            raise self._error
        await self.end.wait()
        return Reply(call.call_id, Completed(1), "told")


def submit(later: Later, *, delay: float = 0, cancel: asyncio.Event | None = None) -> Submission:
    call = Call(new_call_id(), "notes", "act", Request({}), time.time() + 60)
    return later.submit(call, delay=delay, items=None, on_progress=None, cancel=cancel)


async def ended(submission: Submission) -> tuple[str, object]:
    response = (await submission.reply()).response
    assert isinstance(response, Failed)
    return response.code, response.details


async def test_what_is_not_due_at_the_close_never_runs() -> None:
    caller = ToldCaller()
    later = Later(caller)
    submission = submit(later, delay=60)
    await later.close()
    assert await ended(submission) == ("cancelled", {"published": False})
    assert caller.started == 0


async def test_what_runs_at_the_close_may_have_run() -> None:
    later = Later(ToldCaller())
    begun, beginning = submit(later), None
    await asyncio.sleep(0.01)
    beginning = submit(later)
    await later.close()
    assert await ended(begun) == await ended(beginning) == ("outcome_unknown", {"published": True})


async def test_a_signal_that_is_set_before_keeps_the_call_from_starting() -> None:
    caller, signal = ToldCaller(), asyncio.Event()
    later = Later(caller)
    submission = submit(later, delay=60, cancel=signal)
    signal.set()
    assert await ended(submission) == ("cancelled", {"published": False})
    await later.close()
    assert caller.started == 0
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_call_that_nobody_keeps_runs_all_the_same() -> None:
    caller = ToldCaller()
    later = Later(caller)
    submit(later, delay=0.01)
    gc.collect()
    await asyncio.sleep(0.05)
    assert caller.started == 1
    caller.end.set()
    await later.close()


async def test_what_the_caller_raises_reaches_who_asks_and_is_no_noise_otherwise() -> None:
    later = Later(ToldCaller(TransportClosedError("closed")))
    asked, unasked = submit(later), submit(later)
    with pytest.raises(TransportClosedError):
        await asked.reply()
    del asked, unasked
    gc.collect()
    await later.close()
