"""Where engines run: so many at once in this process, each in a thread of its own, which starts it and dies with it."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections import OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grundlag_bus.sandbox.script.engine import Engine

T = TypeVar("T")
_Turn: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]"


class EnginePool:
    """At most so many engine processes at once, shared by the sandboxes that it is given to; they queue for them.

    The users of the scripts take turns, so that whoever has one script does not wait for all that another has sent.
    processes: one for each processor where it is not given. It holds nothing while no script runs.
    """

    def __init__(self, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ConfigurationError(f"A pool of engines needs processes, and processes={processes} is none.")
        self._free = processes or os.cpu_count() or 1
        self._waiting: OrderedDict[str | None, deque[_Turn]] = OrderedDict()  # by user, whose turn is next at first
        self._changing = threading.Lock()

    @property
    def contended(self) -> bool:
        """Whether somebody waits for an engine."""
        return bool(self._waiting)

    @asynccontextmanager
    async def seat(self, make: Callable[[], Engine], user_id: str | None = None) -> AsyncIterator[Seat]:
        """Give an engine of one's own, when it is the user's turn, for as long as this is entered."""
        await self._take(user_id)
        try:
            seat = Seat(make)
            try:
                yield seat
            finally:
                await seat.close()
        finally:
            self._give_back()

    async def _take(self, user_id: str | None) -> None:
        loop = asyncio.get_running_loop()
        with self._changing:
            if self._free:
                self._free -= 1
                return
            turn = loop, loop.create_future()
            self._waiting.setdefault(user_id, deque()).append(turn)
        try:
            await turn[1]
        except asyncio.CancelledError:
            with self._changing:
                left = self._leave(user_id, turn)
            if not left:
                self._give_back()  # it was given in the same moment
            raise

    def _give_back(self) -> None:
        with self._changing:
            while self._waiting:
                user_id, turns = self._waiting.popitem(last=False)
                loop, turn = turns.popleft()
                if turns:
                    self._waiting[user_id] = turns
                try:
                    loop.call_soon_threadsafe(_set, turn, None)
                except RuntimeError:
                    continue  # its loop has been closed
                return
            self._free += 1

    def _leave(self, user_id: str | None, turn: _Turn) -> bool:
        """Wait no longer, and return whether the turn had not come."""
        turns = self._waiting.get(user_id, ())
        if turn not in turns:
            return False
        self._waiting[user_id].remove(turn)
        if not self._waiting[user_id]:
            del self._waiting[user_id]
        return True


class Seat:
    """One engine and its thread. spent: seconds that the engine has worked or was awaited."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.engine = make()
        self.spent = 0.0
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._live, name="grundlag-script", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[], T]) -> T:
        """Do something with the engine in its thread."""
        done: asyncio.Future[T] = self._loop.create_future()
        began = time.monotonic()
        self._work.put((work, done))
        try:
            return await done
        finally:
            self.spent += time.monotonic() - began

    def kill(self) -> None:
        """End what the engine does; `do` raises ScriptLimitError."""
        self.engine.kill()

    async def close(self) -> None:
        """End the engine and wait until its thread has ended, also when this is cancelled."""
        self._work.put(None)
        self.engine.kill()
        cancelled = False
        while not self._ended.done():
            try:
                await asyncio.shield(self._ended)
            except asyncio.CancelledError:
                cancelled = True
        self._thread.join()  # to say that it has ended was the last that it did
        if cancelled:
            raise asyncio.CancelledError

    def _live(self) -> None:
        try:
            while (item := self._work.get()) is not None:
                work, done = item
                try:
                    result = work()
                except BaseException as error:  # noqa: BLE001  it is raised where the work was asked for
                    self._tell(_fail, done, error)
                else:
                    self._tell(_set, done, result)
                del item, work, done
        finally:
            self.engine.close()
            self._tell(_set, self._ended, None)

    def _tell(self, what: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            return  # the loop has been closed: nobody waits


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
