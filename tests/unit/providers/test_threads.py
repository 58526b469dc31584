"""Threads for actions that are no coroutine functions."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest

from grundlag_bus import testing
from grundlag_bus.providers import threads as module
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


async def test_all_runs_of_a_call_are_waited_for_until_their_threads_end() -> None:
    threads = Threads(2)
    context = testing.context()
    gates = [threading.Event(), threading.Event()]
    begun = [threading.Event(), threading.Event()]

    def work(number: int) -> None:
        begun[number].set()
        gates[number].wait(10)

    for number in range(2):
        call = asyncio.create_task(threads.run(context, work, number))
        await eventually(begun[number].is_set)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    ended = asyncio.create_task(threads.ended(context.call_id))
    gates[1].set()
    await asyncio.wait({ended}, timeout=0.02)
    assert not ended.done()
    gates[0].set()
    await ended
    threads.close()


@pytest.mark.parametrize("somebody_waits_for_its_end", [True, False])
async def test_what_a_call_raises_after_it_was_given_up_is_logged_and_nothing_else(
    somebody_waits_for_its_end: bool, caplog: pytest.LogCaptureFixture
) -> None:
    threads = Threads(1)
    context = testing.context()
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(10)
        raise ValueError("too late")

    call = asyncio.create_task(threads.run(context, work))
    await eventually(begun.is_set)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    ended = asyncio.create_task(threads.ended(context.call_id)) if somebody_waits_for_its_end else None
    await asyncio.sleep(0)
    gate.set()
    if ended is not None:
        await ended
    await eventually(lambda: caplog.records)
    del call, ended
    gc.collect()
    await asyncio.sleep(0)
    (record,) = caplog.records
    assert "action_raised_late" in record.getMessage()
    assert context.call_id in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "too late"
    threads.close()


async def test_a_closed_pool_names_the_calls_whose_threads_still_run(caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads(1)
    context = testing.context()
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(10)

    call = asyncio.create_task(threads.run(context, work))
    await eventually(begun.is_set)
    waiting = asyncio.create_task(threads.run(testing.context(), work))
    await asyncio.sleep(0)
    threads.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (record,) = caplog.records
    assert "threads_left_running" in record.getMessage()
    assert f"{context.provider_id}.{context.action_id} {context.call_id}" in record.getMessage()
    gate.set()
    await call


async def test_an_error_is_raised_with_its_own_type_and_traceback() -> None:
    threads = Threads(1)

    def work() -> None:
        raise asyncio.CancelledError("of the function's own")

    with pytest.raises(asyncio.CancelledError, match="own") as raised:
        await threads.run(testing.context(), work)
    assert raised.traceback[-1].name == "work"
    threads.close()


async def test_a_thread_is_used_again() -> None:
    threads = Threads(2)
    used = [await threads.run(testing.context(), threading.get_ident) for _ in range(20)]
    assert len(set(used)) <= 2
    threads.close()


async def test_threads_end_when_they_are_closed_or_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(1)
    thread = await threads.run(testing.context(), threading.current_thread)
    assert thread.is_alive()
    threads.close()
    await eventually(lambda: not thread.is_alive())
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    thread = await threads.run(testing.context(), threading.current_thread)
    await eventually(lambda: not thread.is_alive())
    assert await threads.run(testing.context(), threading.current_thread) is not thread
    threads.close()


def test_a_thread_that_never_ends_does_not_keep_the_process_alive() -> None:
    program = """
import asyncio, threading
from grundlag_bus import testing
from grundlag_bus.providers.threads import Threads

async def main():
    begun = threading.Event()
    def work():
        begun.set()
        threading.Event().wait()
    call = asyncio.create_task(Threads(1).run(testing.context(), work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    call.cancel()

asyncio.run(main())
print("left")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
