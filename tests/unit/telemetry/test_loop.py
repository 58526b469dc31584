from __future__ import annotations

import asyncio
import random
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from grundlag_bus.telemetry import Event, LoopBlocked, LoopTurned, culprit
from grundlag_bus.telemetry.culprit import UNKNOWN, place_of
from grundlag_bus.telemetry.loop import LONG_SECONDS, TURN_SECONDS, LoopWatch
from tests.support.eventually import eventually


class Watched:
    """What a watch told, and in which task it is told that a call runs."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.serving: asyncio.Task[Any] | None = None

    def whose(self, asyncio_task: asyncio.Task[Any]) -> tuple[str, str] | None:
        return ("notes.add", "c1") if asyncio_task is self.serving else None

    @property
    def blocked(self) -> list[LoopBlocked]:
        return [event for event in self.events if isinstance(event, LoopBlocked)]

    async def block(self, blocker: Callable[[], object]) -> LoopBlocked:
        """Block the loop as an action does, and return what was told of it."""

        async def act() -> None:
            blocker()

        self.serving = asyncio.create_task(act())
        await self.serving
        await eventually(lambda: self.blocked)
        return self.blocked.pop()


@asynccontextmanager
async def watching() -> AsyncIterator[Watched]:
    watched = Watched()
    watch = LoopWatch(watched.events.append, whose=watched.whose)
    watch.start()
    try:
        await asyncio.sleep(0)
        yield watched
    finally:
        watch.stop()


def sleep_long() -> None:
    time.sleep(1.2)


def shuffle_long() -> None:
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        random.shuffle(list(range(20_000)))


def match_long() -> None:
    """Hold the interpreter's lock, so that no other thread can look while it lasts."""
    end = time.monotonic() + 1.2
    length = 20
    while time.monotonic() < end:
        re.fullmatch("(a+)+b", "a" * length)
        length += 1


@pytest.mark.parametrize("blocker", [sleep_long, shuffle_long, match_long])
async def test_an_action_that_blocks_the_loop_is_named_with_its_line_in_one_warning(
    blocker: Callable[[], object],
) -> None:
    with capture_logs() as logs:
        async with watching() as watched:
            told = await watched.block(blocker)

    assert told.culprit == "notes.add"
    assert 0.5 <= told.seconds < 60
    [line] = [line for line in logs if line["log_level"] == "warning"]
    assert (line["event"], line["action"], line["call_id"]) == ("loop_blocked", "notes.add", "c1")
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ {blocker.__name__}", line["place"])


async def test_where_no_action_runs_the_place_in_the_code_is_the_culprit() -> None:
    with capture_logs() as logs:
        async with watching() as watched:
            asyncio.get_running_loop().call_soon(sleep_long)
            await eventually(lambda: watched.blocked)

    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ sleep_long", watched.blocked[0].culprit)
    assert "action" not in next(line for line in logs if line["event"] == "loop_blocked")


async def test_what_blocks_for_long_is_told_while_it_lasts_and_not_again() -> None:
    told_meanwhile: list[Any] = []

    def block() -> None:
        end = time.monotonic() + 60
        while not any(line["event"] == "loop_blocked" for line in logs):
            assert time.monotonic() < end
            time.sleep(0.01)
        told_meanwhile.extend(logs)
        time.sleep(0.3)

    with capture_logs() as logs:
        async with watching() as watched:
            told = await watched.block(block)

    assert told_meanwhile[0]["action"] == "notes.add"
    assert told_meanwhile[0]["place"].endswith("block")
    assert told.seconds >= LONG_SECONDS
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["loop_blocked"]
    assert logs[-1]["event"] == "loop_turns_again"


async def test_the_loop_tells_that_it_turns_a_few_times_a_second_and_how_late_it_was() -> None:
    began = time.monotonic()
    async with watching() as watched:
        await eventually(lambda: len(watched.events) >= 3)
        time.sleep(0.4)  # noqa: ASYNC251  the loop is to be late
        count = len(watched.events)
        await eventually(lambda: len(watched.events) > count)
    took = time.monotonic() - began

    turns = [event for event in watched.events if isinstance(event, LoopTurned)]
    assert turns[count].lag >= 0.1
    assert len(turns) <= took / TURN_SECONDS + 1


async def test_how_late_the_loop_is_can_be_asked_in_another_thread_while_it_stands_still() -> None:
    watch = LoopWatch(lambda _: None, whose=lambda _: None)
    assert watch.late == 0
    watch.start()
    asked: list[float] = []

    def ask() -> None:
        time.sleep(0.8)
        asked.append(watch.late)

    asker = threading.Thread(target=ask)
    asker.start()
    asker.join()  # the loop stands still
    watch.stop()

    assert asked[0] > 0.5
    assert watch.late == 0


async def test_no_thread_is_left_after_it_is_stopped_and_it_may_be_started_again() -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "grundlag-loop-watch"]

    watch = LoopWatch(lambda _: None, whose=lambda _: None)
    for _ in range(2):
        watch.start()
        assert len(threads()) == 1
        watch.stop()
        watch.stop()
        await eventually(lambda: not threads())


async def test_a_loop_that_only_waits_has_no_culprit() -> None:
    seen: list[str] = []
    loop_thread = threading.get_ident()

    def look() -> None:
        time.sleep(0.1)
        seen.append(place_of(sys._current_frames()[loop_thread]))

    await asyncio.to_thread(look)

    assert seen == [UNKNOWN]


async def test_user_code_that_is_installed_as_a_library_is_found_by_who_called_it() -> None:
    """A deployment may install its actions: they then look like any library."""
    theirs: dict[str, Any] = {}
    exec(compile(_INSTALLED, "/x/site-packages/theirs/actions.py", "exec"), theirs)  # noqa: S102  code from elsewhere
    ours: dict[str, Any] = {}
    exec(compile("def run(action, look):\n    action(look)\n", culprit.__file__, "exec"), ours)  # noqa: S102  the same
    found: list[str] = []

    asyncio.get_running_loop().call_soon(ours["run"], theirs["action"], lambda frame: found.append(place_of(frame)))
    await eventually(lambda: found)

    assert found == ["/x/site-packages/theirs/actions.py:6 action"]


_INSTALLED = """
import sys
def action(look):
    def inner(frame):
        look(frame)
    inner(sys._getframe())
"""
