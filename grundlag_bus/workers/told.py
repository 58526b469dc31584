"""Turns what happens to a worker's calls into events for who listens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grundlag_bus.schema.envelope import Failed, Interrupted, Response
from grundlag_bus.telemetry import CallBuried, CallEnded, CallSentOn, CallStarted, EnvelopeRefused
from grundlag_bus.telemetry.hook import guarded, ignore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from grundlag_bus.providers.disposition import Again
    from grundlag_bus.telemetry import Hook
    from grundlag_bus.workers.run import Run


class Told:
    """Tells a hook, and costs next to nothing where nobody listens. clock: Unix seconds."""

    def __init__(self, hook: Hook, clock: Callable[[], float]) -> None:
        self.hook = guarded(hook)
        self._listens = hook is not ignore
        self._clock = clock

    def started(self, run: Run) -> None:
        if not self._listens:
            return
        run.began_at = time.monotonic()
        call = run.call
        # An envelope says when its call was sent first, and not when it was due after a pause or came back.
        queued = None if run.redelivered or call.generation > 1 else max(self._clock() - call.sent_at, 0.0)
        self.hook(CallStarted(*_which(run), call.generation, call.attempt, queued, run.redelivered, run.lost))

    def ended(self, run: Run, response: Response) -> None:
        if not self._listens:
            return
        outcome, code = _told_of(response)
        ran = None if run.began_at is None else time.monotonic() - run.began_at
        self.hook(CallEnded(*_which(run), outcome, code, ran, max(self._clock() - run.call.sent_at, 0.0)))

    def sent_on(self, run: Run, again: Again) -> None:
        if self._listens:
            self.hook(CallSentOn(*_which(run), again.why, again.pause))

    def buried(self, run: Run, response: Failed) -> None:
        if self._listens:
            self.hook(CallBuried(*_which(run), response.code))

    def refused(self, reason: str) -> None:
        self.hook(EnvelopeRefused(reason))


def served_by(asyncio_task: asyncio.Task[Any], runs: Iterable[Run]) -> tuple[str, str] | None:
    """Return the action and the id of the call that an asyncio task runs. Asked in another thread."""
    for run in runs:
        if run.serving is asyncio_task:
            return f"{run.call.provider_id}.{run.call.action_id}", run.call.call_id
    return None


def _which(run: Run) -> tuple[str, str, str, str]:
    call = run.call
    return call.provider_id, call.action_id, call.lane, call.call_id


def _told_of(response: Response) -> tuple[str, str | None]:
    if isinstance(response, Failed):
        return "failed", response.code
    return ("interrupted" if isinstance(response, Interrupted) else "completed"), None
