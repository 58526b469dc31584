"""Run a command's work in an event loop, with logging set up."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.logs import configure_logs

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(work: Coroutine[Any, Any, int], *, level: str) -> int:
    """Run it and return its exit code. Ctrl-C cancels it and raises KeyboardInterrupt; SIGTERM cancels it too."""
    configure_logs(level)
    try:
        return asyncio.run(_until_terminated(work))
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


async def _until_terminated(work: Coroutine[Any, Any, int]) -> int:
    """Await it; the first SIGTERM cancels it, and a second one ends the process at once."""
    loop, working = asyncio.get_running_loop(), asyncio.current_task()
    assert working is not None  # noqa: S101  for mypy: a coroutine runs in a task

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loop.call_soon_threadsafe(working.cancel)

    signal.signal(signal.SIGTERM, end)
    return await work
