"""Watches an event loop from a thread: how late it turns, and what keeps it from turning.

The loop moves a date a few times a second. The thread sleeps until that date has been missed by `after` seconds; then
it looks, again and again, at what the loop's thread is at, until the loop turns again. Each blocking is told once: in
the log when it ends, or already while it lasts if it lasts long, and as an event when it ends.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from grundlag_bus.logs import get_logger
from grundlag_bus.telemetry.culprit import place_of
from grundlag_bus.telemetry.events import LoopBlocked, LoopTurned

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.telemetry.hook import Hook

TURN_SECONDS = 0.2
LONG_SECONDS = 2.0
"""From here on a blocking is told while it lasts: it may never end."""
PATIENCE = 8.0
"""Seconds of standing still after which a loop serves nobody: two heartbeats, then the broker ends its connection."""

_LOOK_SECONDS = 0.1
_LOGGER = get_logger("grundlag_bus.telemetry")

Whose: TypeAlias = "Callable[[asyncio.Task[Any]], tuple[str, str] | None]"
"""Names the call that an asyncio task serves, by `provider.action` and call id; asked in another thread."""


@dataclass(frozen=True, slots=True)
class _Seen:
    action: str | None
    call_id: str | None
    place: str

    @property
    def culprit(self) -> str:
        return self.action or self.place


class _Blocking:
    """What was seen since the loop stands still."""

    def __init__(self) -> None:
        self.told = False
        self._seen: Counter[_Seen] = Counter()

    def see(self, seen: _Seen) -> None:
        self._seen[seen] += 1

    @property
    def most_seen(self) -> _Seen:
        """What was seen most often, by its culprit first: one action may be at many lines."""
        culprits: Counter[str] = Counter()
        for seen, times in self._seen.items():
            culprits[seen.culprit] += times
        [(culprit, _)] = culprits.most_common(1)
        return next(seen for seen, _ in self._seen.most_common() if seen.culprit == culprit)


class LoopWatch:
    """Watches the loop that it is started in.

    hook: gets LoopTurned a few times a second, and LoopBlocked after each blocking; after: seconds that the loop may be
    late without being called blocked.
    """

    def __init__(self, hook: Hook, *, whose: Whose, after: float = 0.5) -> None:
        self._hook = hook
        self._whose = whose
        self._after = after
        self._due = 0.0
        self._blocking: _Blocking | None = None
        self._changing = threading.Lock()
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        self._blocking = None
        self._turn_again()
        threading.Thread(target=self._watch, args=(self._stopped,), name="grundlag-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer. Idempotent."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    @property
    def late(self) -> float:
        """Seconds by which the loop is late to turn at this moment; 0 while it is not watched. Asked in any thread."""
        return 0.0 if self._timer is None else max(time.monotonic() - self._due, 0.0)

    # --- in the loop --------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        with self._changing:
            late = max(time.monotonic() - self._due, 0.0)
            blocking, self._blocking = self._blocking, None
            self._turn_again()
        self._hook(LoopTurned(late))
        if blocking is not None:
            self._tell_end(blocking, late)

    def _turn_again(self) -> None:
        self._due = time.monotonic() + TURN_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TURN_SECONDS, self._turn)

    def _tell_end(self, blocking: _Blocking, seconds: float) -> None:
        seen = blocking.most_seen
        if blocking.told:
            _LOGGER.info("loop_turns_again", culprit=seen.culprit, seconds=round(seconds, 2))
        else:
            _tell(seen, seconds)
        self._hook(LoopBlocked(seconds, seen.culprit))

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _watch(self, stopped: threading.Event) -> None:
        pause = TURN_SECONDS
        while not stopped.wait(pause):
            due = self._due
            late = time.monotonic() - due
            if late < self._after:
                pause = self._after - late
                continue
            seen = self._look()
            pause = _LOOK_SECONDS if late < LONG_SECONDS else LONG_SECONDS
            with self._changing:
                if self._due != due or stopped.is_set():
                    continue  # the loop has turned meanwhile: who was seen may be anyone
                blocking = self._blocking = self._blocking or _Blocking()
                blocking.see(seen)
                if late >= LONG_SECONDS and not blocking.told:
                    blocking.told = True
                    _tell(blocking.most_seen, late)

    def _look(self) -> _Seen:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  what it is for
        place = place_of(frame) if frame is not None else "a thread that has ended"
        del frame  # it holds what the loop's code holds
        asyncio_task = asyncio.current_task(self._loop)
        served = None if asyncio_task is None else self._whose(asyncio_task)
        action, call_id = served or (None, None)
        return _Seen(action, call_id, place)


def _tell(seen: _Seen, seconds: float) -> None:
    of_call = {} if seen.action is None else {"action": seen.action, "call_id": seen.call_id}
    _LOGGER.warning("loop_blocked", **of_call, place=seen.place, seconds=round(seconds, 2))
