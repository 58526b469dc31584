"""Threads for actions that are no coroutine functions. A call keeps its slot until its thread ends.

They are daemons of our own: those of `concurrent.futures` are joined when the interpreter exits, so that one action
that never returns would keep a stopped worker alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.context import ActionContext

_LOGGER = get_logger("grundlag_bus.providers")
_IDLE_SECONDS = 10.0  # then a thread without work ends

_Outcome: TypeAlias = tuple[Any, BaseException | None]


def call_as_coroutine(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; a StopIteration becomes a RuntimeError as in a coroutine, since no future can hold it."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error


class Threads:
    """Runs plain functions, at most `most` at once, each with the context variables of its call."""

    def __init__(self, most: int) -> None:
        self._pool = _Pool(most)

    async def run(self, context: ActionContext[Any], function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return what it returns.

        A thread cannot be stopped from outside: when the awaiting coroutine is cancelled, `context.cancelled` becomes
        true for the function to see, and `ended` waits for it. What it raises after that is logged.
        """
        work = _Work(context, function, arguments)
        self._pool.take(work)
        try:
            result, error = await asyncio.wrap_future(work.outcome)
        except asyncio.CancelledError:
            work.give_up()
            raise
        if error is None:
            return result
        try:
            raise error
        finally:
            del error, work  # they refer to each other through this frame

    async def ended(self, call_id: str) -> None:
        """Wait until no thread works on the call any more."""
        while (work := self._pool.work_on(call_id)) is not None:
            await work.ended()

    def close(self) -> None:
        """Let the threads end. A running function is not waited for, and its call is named in the log."""
        running = self._pool.close()
        if running:
            _LOGGER.warning("threads_left_running", calls=[work.name for work in running])


class _Work:
    """A function on its way. Its outcome is no error of the future's: nobody may be left to look at it."""

    __slots__ = ("_arguments", "_context", "_function", "_variables", "outcome")

    def __init__(self, context: ActionContext[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.outcome: Future[_Outcome] = Future()
        self._context = context
        self._variables = contextvars.copy_context()
        self._function = function
        self._arguments = arguments

    @property
    def call_id(self) -> str:
        return self._context.call_id

    @property
    def name(self) -> str:
        return f"{self._context.provider_id}.{self._context.action_id} {self.call_id}"

    def do(self) -> _Outcome:
        try:
            return self._variables.run(self._function, *self._arguments), None
        except BaseException as error:  # noqa: BLE001  raised where it is awaited, or logged
            return None, error

    def give_up(self) -> None:
        """Tell the function that nobody waits for it; one that has not begun never runs."""
        self._context.cancel()
        if not self.outcome.cancel():
            self.outcome.add_done_callback(self._tell_late)

    def _tell_late(self, outcome: Future[_Outcome]) -> None:
        context, (_, error) = self._context, outcome.result()
        if error is not None:
            of = {"provider": context.provider_id, "action": context.action_id, "call_id": context.call_id}
            _LOGGER.warning("action_raised_late", **of, exc_info=error)

    async def ended(self) -> None:
        """Wait for the end of a function, of which a cancellation here does not change anything."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def tell(_: Future[_Outcome]) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(over.set)

        self.outcome.add_done_callback(tell)
        await over.wait()


class _Pool:
    """Threads that are made when there is work, and end when there is none for a while."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._waiting: deque[_Work] = deque()
        self._running: dict[str, list[_Work]] = {}
        self._closed = False

    def take(self, work: _Work) -> None:
        with self._changed:
            self._closed = False
            if self._idle > len(self._waiting):
                self._changed.notify()
            elif self._threads < self._most:
                threading.Thread(target=self._serve, name="grundlag-action", daemon=True).start()
                self._threads += 1
            self._waiting.append(work)

    def work_on(self, call_id: str) -> _Work | None:
        """Return a running function of the call."""
        with self._changed:
            return next(iter(self._running.get(call_id, ())), None)

    def close(self) -> list[_Work]:
        """Let the threads end, cancel what waits for one, and return what still runs; the next work makes new ones."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            running = [work for of_call in self._running.values() for work in of_call]
            self._changed.notify_all()
        for work in waiting:
            work.outcome.cancel()
        return running

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            outcome = work.do()
            self._end(work)
            work.outcome.set_result(outcome)
            del work, outcome  # nothing is kept while the thread is idle

    def _next(self) -> _Work | None:
        """Wait for work; None when the thread is to end."""
        with self._changed:
            while True:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._closed, _IDLE_SECONDS)
                self._idle -= 1
                if not self._waiting:
                    self._threads -= 1
                    return None
                work = self._waiting.popleft()
                if work.outcome.set_running_or_notify_cancel():
                    self._running.setdefault(work.call_id, []).append(work)
                    return work

    def _end(self, work: _Work) -> None:
        with self._changed:
            of_call = self._running[work.call_id]
            of_call.remove(work)
            if not of_call:
                del self._running[work.call_id]
