"""A deadline over a part of the current asyncio task. `asyncio.timeout` does the same at 7 us a call."""

from __future__ import annotations

import asyncio
from typing import Any


def this_task() -> asyncio.Task[Any]:
    """Return the asyncio task that this runs in."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a call runs inside an asyncio task")
    return task


class Deadline:
    """Cancels the current task once, after some seconds, until `end` is called."""

    __slots__ = ("_before", "_passed", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._task = this_task()
        self._before = self._task.cancelling()  # a call may be made while its task is being cancelled
        self._passed = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pass)

    def _pass(self) -> None:
        self._passed = True
        self._task.cancel()

    @property
    def given_up(self) -> bool:
        """Whether the task was cancelled since this began."""
        return self._task.cancelling() > self._before

    def end(self) -> bool:
        """Take back our own cancellation, and say whether the deadline passed and no other cancellation stands.

        To be called once.
        """
        self._timer.cancel()
        return self._passed and self._task.uncancel() == self._before
