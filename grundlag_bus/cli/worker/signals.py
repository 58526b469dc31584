"""The signals that end a worker, or several."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_signals(receive: Callable[[signal.Signals], None]) -> None:
    """Have it called in the loop at each SIGTERM and SIGINT."""
    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, receive, which)
