"""Run a command's work in an event loop, with logging set up."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.logs import configure_logs

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(work: Coroutine[Any, Any, int], *, level: str) -> int:
    """Run it and return its exit code. Ctrl-C cancels it and raises KeyboardInterrupt."""
    configure_logs(level)
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
