"""One script from its begin, or from its journal, to its value, its error or the questions that it waits for.

It goes on as far as it can: outcomes are handed over one at a time, in the order in which the calls ended, and each is
written down first. While no call ends, its engine is given up, and when one has, another engine replays the script.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from grundlag_bus.errors import ScriptCancelledError, ScriptError, ScriptLimitError, ScriptReplayError
from grundlag_bus.sandbox.script.engine import Blocked, Finished

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.errors import ToolInterrupt
    from grundlag_bus.sandbox.script.calling import Calls
    from grundlag_bus.sandbox.script.engine import Engine, MadeCall, Program
    from grundlag_bus.sandbox.script.history import History
    from grundlag_bus.sandbox.script.pool import EnginePool, Seat

    Asleep = Callable[[], Awaitable[None]]

PATIENCE = 2.0
"""Seconds for which a waiting script keeps its engine, or as long as a replay takes if that is longer."""


_LOOK = 0.1
"""Seconds after which a waiting script looks whether others wait for its engine."""
_GRACE = 15.0
"""Seconds in which calls may tell how they ended once the signal is set; what takes longer is cancelled otherwise."""


class Waiting(Exception):  # noqa: N818  no error: a person has to answer
    """All that the script waits for are answers. interrupts: what is asked."""

    def __init__(self, interrupts: list[ToolInterrupt]) -> None:
        super().__init__(f"{len(interrupts)} questions")
        self.interrupts = interrupts


class Running:
    """Runs one script once. printed: what it has printed so far.

    asleep: awaited when the script has given up its engine, and waits for calls alone; what it raises ends this.
    replay_always: for tests, to give the engine up before each outcome.
    """

    replay_always: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913  what a script runs with
        self,
        program: Program,
        history: History,
        calls: Calls,
        pool: EnginePool,
        make: Callable[[], Engine],
        *,
        user_id: str | None,
        asleep: Asleep | None = None,
    ) -> None:
        self._program = program
        self._history = history
        self._calls = calls
        self._pool = pool
        self._make = make
        self._user_id = user_id
        self._asleep = asleep
        self._cancelled = False
        self._seat: Seat | None = None
        self.printed = ""

    async def run(self, signal: asyncio.Event | None) -> Any:
        """Return the value, of any type. Raises Waiting, ScriptError; nothing of it is left when it returns."""
        watching = None if signal is None else asyncio.get_running_loop().create_task(self._watch(signal))
        try:
            value = await self._to_its_end()
            await self._calls.drain()
        except ScriptError as error:
            await self._calls.drain(within=_GRACE if self._cancelled else None)
            if self._cancelled and not isinstance(error, ScriptCancelledError):
                raise ScriptCancelledError("The script was cancelled, and went no further.") from error
            raise
        else:
            return value
        finally:
            if watching is not None:
                watching.cancel()
            await self._calls.abort()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _to_its_end(self) -> Any:
        pending: frozenset[int] = frozenset()
        while True:
            async with self._pool.seat(self._make, self._user_id) as seat:
                self._seat = seat
                try:
                    turn = await self._turn(seat, self._replay(seat.engine))
                    self._program = replace(self._program, checked=True)
                    while True:
                        if isinstance(turn, Finished):
                            return turn.value
                        pending = turn.pending
                        for made in turn.calls:
                            self._calls.want(made)
                        number = await self._next(pending, patience=max(PATIENCE, seat.spent))
                        if number is None:
                            break
                        if self.replay_always:
                            break
                        turn = await self._turn(seat, _delivery(seat.engine, number, self._history))
                finally:
                    self._seat = None
            if number is None:
                await self._sleep(pending)

    async def _sleep(self, pending: frozenset[int]) -> None:
        """Wait without an engine, and take the outcome that comes."""
        while self._asleep is not None:
            await self._asleep()
            if await self._next(pending, patience=0.0) is not None:
                return
        await self._next(pending, patience=None)

    def _replay(self, engine: Engine) -> Callable[[], Blocked | Finished]:
        return partial(_replayed, engine, self._program, self._history)

    async def _turn(self, seat: Seat, work: Callable[[], Blocked | Finished]) -> Blocked | Finished:
        self._refuse()
        try:
            return await seat.do(work)
        finally:
            self.printed = seat.engine.printed

    async def _next(self, pending: frozenset[int], *, patience: float | None) -> int | None:
        """Take the call whose outcome is next, or None if none came in so many seconds, or others wait for the engine.

        Only the wait is cut short: what is being written in the journal is written to its end.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            self._refuse()
            number = await self._calls.take(pending)
            if number is not None:
                return number
            if not self._calls.busy:
                raise self._nothing_comes(pending)
            try:
                async with asyncio.timeout(None if patience is None else _LOOK):
                    await self._calls.change()
            except TimeoutError:
                spent = 0.0 if self._seat is None else self._seat.spent
                if loop.time() - began >= (spent if self._pool.contended else patience or 0.0):
                    return None

    def _nothing_comes(self, pending: frozenset[int]) -> Exception:
        states = [self._history.calls[number] for number in sorted(pending) if number in self._history.calls]
        interrupts = [state.interrupt for state in states if state.interrupt is not None]
        if interrupts:
            return Waiting(interrupts)
        return ScriptReplayError("The script waits for calls that were never made.")

    def _refuse(self) -> None:
        """Raise where the script may go no further."""
        if self._cancelled:
            raise ScriptCancelledError("The script was cancelled, and went no further.")
        limit = self._program.limits.journal
        if self._history.size > limit:
            raise ScriptLimitError(
                f"The inputs and outcomes of the script's calls take more than {limit} bytes.", limit="journal"
            )

    async def _watch(self, signal: asyncio.Event) -> None:
        await signal.wait()
        self._cancelled = True
        self._calls.wake()
        if self._seat is not None:
            self._seat.kill()


def _delivery(engine: Engine, number: int, history: History) -> Callable[[], Blocked | Finished]:
    outcome = history.calls[number].outcome
    answer = None if outcome is None else outcome.answer
    if answer is None:
        raise history.mismatch(f"its call {number} has no outcome", call=number)
    return lambda: engine.deliver(number, answer)


def _replayed(engine: Engine, program: Program, history: History) -> Blocked | Finished:
    """Run a program to where its journal ends, in the engine's thread. Raises ScriptReplayError where they part."""
    turn = engine.start(program)
    made: list[MadeCall] = []
    for number in [*history.delivered, None]:
        for call in turn.calls:
            history.check(call)
        made.extend(turn.calls)
        if number is None:
            break
        if isinstance(turn, Finished) or number not in turn.pending:
            raise history.mismatch(f"it does not wait for its call {number}, whose outcome came next", call=number)
        turn = _delivery(engine, number, history)()
    calls = tuple(made)
    return Finished(turn.value, calls) if isinstance(turn, Finished) else Blocked(calls, turn.pending)
