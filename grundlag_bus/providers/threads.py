"""Threads for actions that are no coroutine functions. A call keeps its slot until its thread ends."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.context import ActionContext


def call_as_coroutine(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; a StopIteration becomes a RuntimeError as in a coroutine, since no future can hold it."""
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error


class Threads:
    """Runs plain functions, at most `most` at once, each with the context variables of its call."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool: ThreadPoolExecutor | None = None
        self._abandoned: dict[str, Future[Any]] = {}

    async def run(self, context: ActionContext[Any], function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a thread and return what it returns.

        A thread cannot be stopped from outside: when the awaiting coroutine is cancelled, `context.cancelled` becomes
        true for the function to see, and `ended` waits for it.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="grundlag-action")
        running = self._pool.submit(contextvars.copy_context().run, call_as_coroutine, function, *arguments)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            context.cancel()
            if not running.done() and not running.cancel():
                self._abandoned[context.call_id] = running
                running.add_done_callback(lambda _: self._abandoned.pop(context.call_id, None))
            raise

    async def ended(self, call_id: str) -> None:
        """Wait until no thread works on the call any more."""
        running = self._abandoned.get(call_id)
        if running is not None:
            await asyncio.wait([asyncio.wrap_future(running)])

    def close(self) -> None:
        """Take no more functions; a running one is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
