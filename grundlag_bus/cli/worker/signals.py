"""The signals that end a worker, or several.

SIGHUP, which comes when a terminal is closed, drains as SIGTERM does and never aborts: a shell sends it twice. Whoever
ignores it (`nohup`) goes on.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def on_signals(receive: Callable[[signal.Signals], None]) -> None:
    """Have it called in the loop at each SIGTERM and SIGINT, and at a SIGHUP that comes first."""
    heard: list[signal.Signals] = []

    def hear(which: signal.Signals) -> None:
        if which is signal.SIGHUP and heard:
            return
        heard.append(which)
        receive(which)

    for which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if which is not signal.SIGHUP or signal.getsignal(which) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(which, hear, which)
