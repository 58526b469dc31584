"""The calls that run here, and who waits for them.

Rules:
- A call runs in a task of its own: whoever waits for it may go away and come again.
- When nobody waits for it any more it is cancelled: at once if it has no key, else if nobody comes again in time.
- A key is its user's. While its call runs, or its reply is kept, the same request joins it and any other is refused.
- A request that says that it comes again, for a call that is not known here and may have been, does not start it: its
  host was another one, or its reply is kept no more.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson

from grundlag_bus.errors import CallIdReusedError, OutcomeUnknownError, TransportClosedError
from grundlag_bus.gateway.kept import Ended, KeptReplies
from grundlag_bus.gateway.status import status_of
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools.endings import cancelled, outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grundlag_bus.gateway.asking import Asked
    from grundlag_bus.gateway.limits import Shares
    from grundlag_bus.schema.envelope import Response
    from grundlag_bus.schema.progress import Progress, ProgressSink
    from grundlag_bus.tools import Caller

AWAY_SECONDS = 10.0
"""How long a call with a key waits for somebody to come again."""
_NEVER_RAN = ("overloaded", "provider_unavailable")

_LOGGER = get_logger("grundlag_bus.gateway")


class RunningCall:
    """One call, from its beginning to its end."""

    __slots__ = ("_cancel", "_leaving", "_sinks", "_waiting", "asked", "ended")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._cancel = asyncio.Event()
        self._leaving: asyncio.TimerHandle | None = None
        self._sinks: list[ProgressSink] = []
        self._waiting = 0

    @contextmanager
    def waited_for(self, sink: ProgressSink | None = None) -> Iterator[None]:
        """Wait for its end as long as it is entered; sink: hears of its progress."""
        self._waiting += 1
        if self._leaving is not None:
            self._leaving.cancel()
        if sink is not None:
            self._sinks.append(sink)
        try:
            yield
        finally:
            self._waiting -= 1
            if sink is not None:
                self._sinks.remove(sink)
            if not self._waiting and not self.ended.done():
                self._left()

    def cancel(self) -> None:
        """Ask for its end; its reply still comes."""
        self._cancel.set()

    async def run(self, caller: Caller, *, watched: bool) -> Response:
        """Call, and return the response."""
        call = self.asked.call
        try:
            reply = await caller.call(call, on_progress=self._tell if watched else None, cancel=self._cancel)
        except TransportClosedError:
            return Failed("overloaded", "The host closes: call again, it may be another one.", retryable=True)
        except Exception as error:
            _LOGGER.exception("call_failed", call_id=call.call_id)
            return Failed("internal", "The host failed.", {"type": type(error).__name__, "reference": call.call_id})
        return reply.response

    def end(self, ended: Ended) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self.ended.set_result(ended)

    def _tell(self, progress: Progress) -> None:
        for sink in tuple(self._sinks):
            sink(progress)

    def _left(self) -> None:
        if self.asked.key is None:
            self.cancel()
        else:
            self._leaving = asyncio.get_running_loop().call_later(AWAY_SECONDS, self.cancel)


class RunningCalls:
    """All of them."""

    def __init__(self, caller: Caller, shares: Shares) -> None:
        self._caller = caller
        self._shares = shares
        self._kept = KeptReplies()
        self._by_key: dict[tuple[str | None, str], RunningCall] = {}
        self._tasks: dict[asyncio.Task[None], RunningCall] = {}

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    def begin(self, asked: Asked, *, watched: bool) -> RunningCall:
        """Start a call, or join the one of the same key. watched: whether its first caller hears of its progress.

        Raises CallIdReusedError, OutcomeUnknownError, and Refused where too many calls of the user run.
        """
        known = None if asked.key is None else self._join(asked)
        if known is not None:
            return known
        user_id = asked.call.user_id
        if asked.comes_again and not asked.call.idempotent and not self._kept.is_whole(user_id):
            failed = outcome_unknown(
                asked.call, "it was sent before, and this host knows nothing of it", published=None
            )
            raise OutcomeUnknownError(failed.message, details=failed.details)
        self._shares.enter(user_id)
        running = RunningCall(asked)
        task = asyncio.get_running_loop().create_task(self._run(running, watched=watched))
        self._tasks[task] = running
        task.add_done_callback(self._tasks.pop)
        if asked.key is not None:
            self._by_key[asked.key] = running
        return running

    def _join(self, asked: Asked) -> RunningCall | None:
        assert asked.key is not None  # noqa: S101  for mypy
        running = self._by_key.get(asked.key)
        kept = None if running else self._kept.find(asked.key)
        digest = running.asked.digest if running else kept and kept.digest
        if digest is not None and digest != asked.digest:
            raise CallIdReusedError(
                "This Idempotency-Key is another call's, which asks for something else: take a new one."
            )
        if running is None and kept is not None:
            running = RunningCall(asked)
            running.end(kept)
        return running

    def cancel(self, key: tuple[str | None, str], call_id: str) -> None:
        """Ask for the end of the call of this key; one that is still on its way here does not begin."""
        running = self._by_key.get(key)
        if running is not None:
            running.cancel()
        elif self._kept.find(key) is None:
            never = Failed("cancelled", "The call was cancelled, before it started.", {"published": False})
            self._kept.add(key, _ended(call_id, never, None))

    def cancel_all(self) -> None:
        for running in self._tasks.values():
            running.cancel()

    async def idle(self, within: float) -> bool:
        """Wait until nothing runs, and return whether it came to that."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=within)
        return not self._tasks

    async def _run(self, running: RunningCall, *, watched: bool) -> None:
        asked = running.asked
        response: Response = cancelled(asked.call, published=None)
        try:
            response = await running.run(self._caller, watched=watched)
        finally:
            self._shares.leave(asked.call.user_id)
            ended = _ended(asked.call.call_id, response, asked.digest)
            if asked.key is not None:
                del self._by_key[asked.key]
                if not (isinstance(response, Failed) and response.code in _NEVER_RAN):
                    self._kept.add(asked.key, ended)
            running.end(ended)


def _ended(call_id: str, response: Response, digest: str | None) -> Ended:
    return Ended(call_id, status_of(response), orjson.dumps(response.to_json()), digest)
