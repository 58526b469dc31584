"""Whether the ledger's database serves. While it does not, the worker takes nothing, and what asks waits.

One that answers and does not do what it is asked, as a full one, does not serve either: it does again when it has done
all that it did not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from grundlag_bus.errors import StoreAwayError
from grundlag_bus.logs import get_logger
from grundlag_bus.telemetry import Hook, LedgerAnswered, LedgerAway, LedgerNoted, ignore
from grundlag_bus.workers.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from grundlag_bus.store.store import Store

T = TypeVar("T")

FAILS_FROM = 0.4
"""Seconds between two times that the same thing is asked, from which on the database counts as away."""
LONGEST_PAUSE = 2.0
"""Seconds between two looks."""

_LOGGER = get_logger("grundlag_bus.workers")


class Presence:
    """Asks a store again and again until it answers.

    gone, back: called when it does not serve any more, and when it does again; reason: why it does not, None while it
    does.
    """

    def __init__(
        self,
        store: Store,
        *,
        gone: Callable[[], Awaitable[None]],
        back: Callable[[], Awaitable[None]],
        hook: Hook = ignore,
    ) -> None:
        self.reason: str | None = None
        self._store = store
        self._gone = gone
        self._back = back
        self._hook = hook
        self._beside = Beside()
        self._looking: asyncio.Event | None = None
        self._failing: set[object] = set()
        self._asked: set[asyncio.Task[Any]] = set()

    def note(self, what: str) -> None:
        """Tell that the ledger kept something from going wrong."""
        self._hook(LedgerNoted(what))

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]], late: Callable[[T], None] | None = None) -> T:
        """Return the answer, when there is one. What is asked must bear being asked again. late: as `once` has it."""
        pause = 0.0
        this = object()
        try:
            while True:
                try:
                    return await self.once(question(), late)
                except StoreAwayError as error:
                    await self.away(error)
                    if pause >= FAILS_FROM:
                        self._failing.add(this)
                        await self._is_away(str(error))
                    # What fails although the store answers is not asked without end at full speed.
                    await asyncio.sleep(pause)
                    pause = min(pause * 2 or 0.05, LONGEST_PAUSE)
        finally:
            if this in self._failing:
                self._failing.discard(this)
                if self._looking is None:
                    self._beside.do(self._is_back())

    async def once(self, question: Coroutine[Any, Any, T], late: Callable[[T], None] | None = None) -> T:
        """Return the answer. Raises StoreAwayError.

        Whoever waits may be cancelled, and what was asked is not: it goes to its end, since half of a transaction is
        what nobody can tell. late: then called with the answer.
        """
        asked = self._begin(question)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(partial(_answered_late, late=late))
            raise

    def beside(self, question: Coroutine[Any, Any, object]) -> None:
        """Ask what nobody waits for."""
        _ = self._begin(question)

    def _begin(self, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        asked = asyncio.get_running_loop().create_task(question)
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        if self._hook is not ignore:
            asked.add_done_callback(partial(self._answered, since=time.monotonic()))
        return asked

    def _answered(self, asked: asyncio.Task[T], *, since: float) -> None:
        if not asked.cancelled() and asked.exception() is None:
            self._hook(LedgerAnswered(time.monotonic() - since))

    async def settle(self, *, within: float) -> None:
        """Wait that many seconds for what was asked, and for what was asked because of that."""
        self._beside.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._asked:
                    await asyncio.wait(self._asked)

    async def away(self, error: StoreAwayError) -> None:
        """Return when the store serves. One that does so at once has lost a connection, and nobody hears of it."""
        looking = self._looking
        if looking is None:
            self._looking = looking = asyncio.Event()
            self._beside.do(self._look(looking, str(error)))
        await looking.wait()

    async def _look(self, looking: asyncio.Event, reason: str) -> None:
        pause = 0.1
        since = time.monotonic()
        try:
            while (again := await self._answers()) is not None:
                await self._is_away(reason)
                self.reason = again
                since = self._tell_away(since)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            if self.reason is not None:
                self._tell_away(since)
            await self._is_back()
        finally:
            self._looking = None
            looking.set()

    async def _is_away(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason
            _LOGGER.error("ledger_away", reason=reason)
            await self._gone()

    async def _is_back(self) -> None:
        if self.reason is not None and not self._failing:
            self.reason = None
            _LOGGER.warning("ledger_back")
            await self._back()

    def _tell_away(self, since: float) -> float:
        """Tell that it has been away since then, and return when that was."""
        now = time.monotonic()
        self._hook(LedgerAway(now - since))
        return now

    async def _answers(self) -> str | None:
        """Return why it does not serve, or None."""
        try:
            await self.once(self._store.ping())
        except StoreAwayError as error:
            return str(error)
        return None


def _answered_late(asked: asyncio.Task[T], *, late: Callable[[T], None] | None) -> None:
    if not asked.cancelled() and asked.exception() is None and late is not None:
        late(asked.result())
