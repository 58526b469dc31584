"""Running alone: the last start of a call whose workers died, with nothing beside it.

A call that needs it is held unstarted; the worker takes nothing more, waits until nothing else runs, starts it, and
takes calls again when it is settled.

Rules:
- The intake is never paused without bound: where the others do not end in time, calls are taken again for as long as
  they were not, and then it is tried again. A worker never turns deaf for a call that waits.
- Nor for one that runs: after LONGEST_ALONE the worker takes calls again while that run goes on. What kills its worker
  does so early, as a rule.
- One at a time. The others that wait are given back before it starts: should it kill the worker, they are lost to
  nobody, and another worker may have them meanwhile.
- A call that waits is one of the worker's runs: when it comes again it is adopted. When it is cancelled or its deadline
  passes, it ends.
- One that was lost while it waited is another worker's, and not started here.
- Once the worker drains, what waits is given back and nothing is started alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from grundlag_bus.workers.intake import Intake
    from grundlag_bus.workers.run import Run

FIRST_WAIT = 10.0
"""Seconds that the intake is paused at first for others to end; twice as long after each time that they did not."""
LONGEST_WAIT = 300.0
LONGEST_ALONE = 60.0
"""Seconds after which a worker takes calls again beside one that was started alone."""
_LOOK = 0.05


class Alone:
    """Gives one run at a time the worker for itself. runs: all that the worker has at work."""

    def __init__(self, intake: Intake, runs: Collection[Run]) -> None:
        self._intake = intake
        self._runs = runs
        self._waiting: dict[Run, None] = {}
        self._turn = asyncio.Lock()
        self._owner: Run | None = None
        self._open = True

    def open(self) -> None:
        self._turn = asyncio.Lock()
        self._open = True

    def close(self) -> None:
        """Give back what waits, and start nothing alone any more."""
        self._open = False
        for run in tuple(self._waiting):
            run.stop()

    def hold(self, run: Run) -> None:
        """Count the run among those that wait: it is not started, whatever its task does."""
        self._waiting[run] = None

    def release(self, run: Run) -> None:
        """Count the run among those that run."""
        self._waiting.pop(run, None)

    async def turn(self, run: Run, *, left: float) -> bool:
        """Wait, held, until nothing else runs here. Returns False when it was cancelled or after `left` seconds.

        After True, `done` is to be called.
        """
        if self._owner is run:
            return True
        if not self._open:
            run.stop()
        waiting = asyncio.ensure_future(self._have_turn(run))
        ending = asyncio.ensure_future(run.oversight.pause(max(left, 0)))
        try:
            await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
            return waiting.done() and not run.oversight.cancelled and waiting.result()
        finally:
            ending.cancel()
            waiting.cancel()

    def done(self, run: Run) -> None:
        """Take calls again, if that was not done before. Nothing happens where it is not this run's turn."""
        if self._owner is run:
            self._owner = None
            self._turn.release()
            self._intake.resume("alone")

    async def _have_turn(self, run: Run) -> bool:
        await self._turn.acquire()
        self._owner = run
        try:
            await self._be_alone(run)
        except BaseException:
            self.done(run)
            raise
        asyncio.get_running_loop().call_later(LONGEST_ALONE, self.done, run)
        return True

    async def _be_alone(self, run: Run) -> None:
        clock = asyncio.get_running_loop().time
        wait = FIRST_WAIT
        while True:
            since = clock()
            await self._intake.pause("alone")
            if await self._others_end(run, within=wait):
                return
            self._intake.resume("alone")
            await asyncio.sleep(clock() - since)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _others_end(self, run: Run, *, within: float) -> bool:
        clock = asyncio.get_running_loop().time
        until = clock() + within
        while others := [other for other in self._runs if other is not run]:
            if (left := until - clock()) <= 0:
                return False
            if all(other in self._waiting for other in others):
                for other in others:
                    other.stop()
            # By looks, since who waits may come to run, and who runs to wait.
            await asyncio.wait([other.serving for other in others], timeout=min(left, _LOOK))
        return True
