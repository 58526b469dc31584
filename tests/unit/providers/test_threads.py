"""Threads for actions that are no coroutine functions."""

from __future__ import annotations

import asyncio
import threading

import pytest

from grundlag_bus import testing
from grundlag_bus.providers.threads import Threads
from tests.support.eventually import eventually


async def test_no_more_run_at_once_than_there_are_threads() -> None:
    threads = Threads(2)
    running: list[int] = []
    gate = threading.Event()

    def work(number: int) -> int:
        running.append(number)
        gate.wait(10)
        return number

    calls = [asyncio.create_task(threads.run(testing.context(), work, number)) for number in range(3)]
    await eventually(lambda: len(running) == 2)
    await asyncio.wait(calls, timeout=0.02)
    assert running == [0, 1]
    gate.set()
    assert await asyncio.gather(*calls) == [0, 1, 2]
    threads.close()


async def test_a_call_that_is_given_up_tells_its_thread_and_is_over_when_the_thread_is() -> None:
    threads = Threads(1)
    context = testing.context()
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(10)

    call = asyncio.create_task(threads.run(context, work))
    await eventually(begun.is_set)
    assert not context.cancelled
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert context.cancelled
    ended = asyncio.create_task(threads.ended(context.call_id))
    await asyncio.wait({ended}, timeout=0.02)
    assert not ended.done()
    gate.set()
    await ended
    await threads.ended(context.call_id)
    threads.close()


async def test_a_call_that_is_given_up_before_its_thread_begins_never_runs() -> None:
    threads = Threads(1)
    gate, ran = threading.Event(), threading.Event()
    first = asyncio.create_task(threads.run(testing.context(), gate.wait, 10))
    context = testing.context()
    second = asyncio.create_task(threads.run(context, ran.set))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await threads.ended(context.call_id)
    gate.set()
    await first
    threads.close()
    assert not ran.is_set()


async def test_threads_are_made_again_after_they_were_closed() -> None:
    threads = Threads(1)
    for _ in range(2):
        assert await threads.run(testing.context(), threading.current_thread) is not threading.current_thread()
        threads.close()
    threads.close()
