"""The bounds of a run: a part of the current asyncio task that is cancelled, once, for the first of several reasons.

`asyncio.timeout` does the same for one reason at 7 us a call.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Any


class Stop(Enum):
    """Why a run is ended before its action ends it."""

    DEADLINE = auto()
    """Its call's deadline passed."""
    LIMIT = auto()
    """It ran for as long as its lane allows."""
    IDLE = auto()
    """It made no progress for as long as its action allows."""
    CANCELLED = auto()
    """Its caller asked for that."""


def this_task() -> asyncio.Task[Any]:
    """Return the asyncio task that this runs in."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a call runs inside an asyncio task")
    return task


class Bounds:
    """Cancels the current task once, until `end` is called.

    seconds: until that happens by itself, for the reason `why`; idle: seconds that may pass without `touch`.
    """

    __slots__ = ("_before", "_idle", "_idle_timer", "_loop", "_task", "_timer", "_touched", "_why")

    def __init__(self, seconds: float, why: Stop = Stop.DEADLINE, *, idle: float | None = None) -> None:
        self._task = this_task()
        self._before = self._task.cancelling()  # a call may be made while its task is being cancelled
        self._loop = asyncio.get_running_loop()
        self._why: Stop | None = None
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(seconds, self.stop, why)
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None
        if idle is not None:
            self._touched = self._loop.time()
            self._idle_timer = self._loop.call_later(idle, self._look)

    def stop(self, why: Stop) -> None:
        """Cancel the task, unless that was done before or the run is over."""
        if self._why is None and self._timer is not None:
            self._why = why
            self._task.cancel()

    def touch(self) -> None:
        """Say that there is progress. From any thread."""
        if self._idle is not None:
            self._touched = self._loop.time()

    def _look(self) -> None:
        assert self._idle is not None  # noqa: S101  there is a timer
        left = self._touched + self._idle - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._look)
        else:
            self.stop(Stop.IDLE)

    @property
    def given_up(self) -> bool:
        """Whether the task was cancelled since this began."""
        return self._task.cancelling() > self._before

    def end(self) -> Stop | None:
        """Take back our own cancellation, and say why there was one if no other stands. To be called once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        return self._why if self._why is not None and self._task.uncancel() == self._before else None
