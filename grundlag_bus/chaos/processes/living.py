"""What every process of the fleet does beside its own work: measure itself, tell what is left, end with its owner."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.chaos.history import Began, Closed, History, Memory
from grundlag_bus.chaos.processes.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_MEASURED_EVERY = 1.0
_MOST_LEFT = 20
_ASYNCPG = "unexpected connection_lost() call"
"""What asyncpg leaves of a connection that the database ended while nobody used it: it is none of ours."""


class Life:
    """One life of a process: its history, and how many calls it has had."""

    def __init__(self, config: Config, history: History) -> None:
        self.config = config
        self.history = history
        self.calls = 0
        self.stop = asyncio.Event()
        self._unseen: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Note that the work begins."""
        self.history.write(Began(time.monotonic(), self.config.name, self.config.life, os.getpid()))
        self._measure()

    def end(self, *, late: int = 0) -> None:
        """Note what is left; to be called when everything is closed."""
        if self._timer is not None:
            self._timer.cancel()
        gc.collect()
        left = [*self._unseen, *_left()][:_MOST_LEFT]
        self.history.write(Closed(time.monotonic(), self.config.name, late, left))

    def unseen(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what the loop reports because nobody else looks at it."""
        error = context.get("exception")
        if str(error) != _ASYNCPG:
            self._unseen.append(f"{context.get('message')}: {error!r}")
        asyncio.get_running_loop().default_exception_handler(context)

    def _measure(self) -> None:
        """Note every second how much memory it takes: by a timer, which is no task."""
        config = self.config
        self.history.write(Memory(time.monotonic(), config.name, config.life, self.calls, memory()))
        self._timer = asyncio.get_running_loop().call_later(_MEASURED_EVERY, self._measure)


def live(work: Callable[[Life], Coroutine[Any, Any, None]]) -> None:
    """Run the work of this process, as its configuration (the only argument) says, until it ends or SIGTERM comes."""
    config = Config.read(sys.argv[1])
    threading.Thread(target=_end_with_owner, daemon=True).start()
    with History(config.history) as history:
        asyncio.run(_live(work, config, history))


async def _live(work: Callable[[Life], Coroutine[Any, Any, None]], config: Config, history: History) -> None:
    loop = asyncio.get_running_loop()
    life = Life(config, history)
    loop.set_exception_handler(life.unseen)
    loop.add_signal_handler(signal.SIGTERM, life.stop.set)
    await work(life)


def memory() -> int:
    """Return how many bytes of the machine's memory this process needs; 0 where the system does not tell.

    What was freed and not given back yet is given back first: how much that is goes by chance, and grows for long.
    """
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _left() -> list[str]:
    """Name the tasks and futures that are not done."""
    this = asyncio.current_task()
    waiting = [each for each in gc.get_objects() if isinstance(each, asyncio.Future) and not each.done()]
    return [repr(each) for each in waiting if each is not this]


def _end_with_owner() -> None:
    """End when whoever started this process has: it holds the other end of standard input."""
    os.read(sys.stdin.fileno(), 1)  # a buffered read would hold a lock that the end of the interpreter wants
    os._exit(1)
