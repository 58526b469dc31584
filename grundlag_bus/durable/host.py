"""Drives runs: takes what is due, brings each as far as it goes, and holds on to it meanwhile."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from grundlag_bus.durable.active import ActiveRun, ParkedError, current
from grundlag_bus.durable.bell import Bell, rung
from grundlag_bus.durable.caller import LEEWAY
from grundlag_bus.durable.failpoints import reach
from grundlag_bus.durable.journal import StoredJournal
from grundlag_bus.durable.outcome import Outcome, failed
from grundlag_bus.durable.records import LeaseLostError, LeftError
from grundlag_bus.errors import StoreAwayError, TransportError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import new_call_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grundlag_bus.durable.advancing import Advancing
    from grundlag_bus.durable.answering import Answering
    from grundlag_bus.durable.call_records import CallRecords
    from grundlag_bus.durable.caller import RunCaller
    from grundlag_bus.durable.notices import Notices
    from grundlag_bus.durable.offers import Offers
    from grundlag_bus.durable.records import Claimed, Hold, RunRecords
    from grundlag_bus.durable.writes import Writes
    from grundlag_bus.schema.envelope import Reply

POLL = 1.0
"""Seconds from one look at what is due to the next, where nothing rings."""

_LOGGER = get_logger("grundlag_bus.durable")


class Host:
    """An owner of runs. work: rings when something may be due; news: rung when something has changed in a run.

    replay_always: for tests, to begin anew from the journal whenever something was written in it.
    """

    replay_always: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913  what it works with
        self,
        *,
        records: RunRecords,
        calls: CallRecords,
        writes: Writes,
        caller: RunCaller,
        offers: Offers,
        advancing: Advancing,
        answering: Answering,
        notices: Notices,
        concurrency: int,
        lease: float,
        news: Bell,
    ) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_call_id()[:8]}"
        self.work = Bell()
        self._news = news
        self._records = records
        self._calls = calls
        self._writes = writes
        self._caller = caller
        self._offers = offers
        self._advancing = advancing
        self._answering = answering
        self._notices = notices
        self._concurrency = concurrency
        self._lease = lease
        self._active: dict[Hold, ActiveRun] = {}
        self._going: list[asyncio.Task[None]] = []

    @property
    def driven(self) -> int:
        """How many runs are driven here."""
        return len(self._active)

    def heard(self, reply: Reply) -> None:
        """Take a reply that is recorded: its run is here, or is to be taken by somebody."""
        if not self._caller.hear(reply):
            self.work.ring()

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._going = [
            loop.create_task(self._repeat(self._round, POLL), name="runs: take"),
            loop.create_task(self._repeat(self._sweep, POLL), name="runs: sweep"),
            loop.create_task(self._repeat(self._renew, self._lease / 3, rings=False), name="runs: renew"),
        ]

    async def close(self) -> None:
        """Take nothing more, and give back what is driven here, for another host to go on with at once."""
        driving = [active.driving for active in self._active.values() if active.driving is not None]
        ending = [*self._going, *driving]
        for each in ending:
            each.cancel()
        if ending:
            await asyncio.wait(ending)
        await self._writes.settle()
        with suppress(StoreAwayError):
            await self._writes.do(self._records.release(self.name))

    async def take(self) -> int:
        """Take what is due, as far as there is room, and return how many runs that is. Raises StoreAwayError."""
        room = self._concurrency - len(self._active)
        taken = await self._writes.do(self._records.claim(self.name, room, self._advancing.kinds)) if room > 0 else []
        for claimed in taken:
            reach("run.claimed")
            self._begin(claimed)
        return len(taken)

    def lost_replies(self) -> None:
        """Begin anew with all that waits for replies."""
        for active in self._active.values():
            if active.waiting:
                active.begin_anew()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _repeat(self, what: Callable[[], Awaitable[None]], pause: float, *, rings: bool = True) -> None:
        """Do something again and again, also whenever it rings."""
        away = False
        while True:
            event = self.work.next
            try:
                await what()
                away = False
            except StoreAwayError as error:
                if not away:
                    _LOGGER.error("store_away", reason=str(error))  # noqa: TRY400  a sentence says it
                away = True
            except Exception:
                _LOGGER.exception("host_failed")
            if away or not rings:
                await asyncio.sleep(pause)
            else:
                await rung(event, within=pause)

    async def _round(self) -> None:
        """Take what is due, and see what is new for what is here."""
        await self.take()
        if self._active:
            await self._look(await self._records.ready(tuple(self._active)))

    async def _renew(self) -> None:
        held = tuple(self._active)
        if not held:
            return
        renewed = await self._writes.do(self._records.renew(held))
        for hold in held:
            active = self._active.get(hold)
            if active is not None and hold not in renewed and active.driving is not None:
                active.driving.cancel()  # it is another host's

    async def _sweep(self) -> None:
        await self._writes.do(self._answering.expire())
        await self._notices.tell()

    async def _look(self, ready: dict[Hold, bool]) -> None:
        for hold, cancelling in ready.items():
            active = self._active.get(hold)
            if active is not None and cancelling and not active.closing:
                active.begin_anew(closing=True)
        if ready and (expected := self._caller.expected):
            for reply in await self._calls.replies(expected):
                self._caller.hear(reply)

    def _begin(self, claimed: Claimed) -> None:
        active = ActiveRun(claimed)
        self._active[claimed.hold] = active
        active.driving = asyncio.get_running_loop().create_task(self._drive(active), name=f"run {claimed.hold.run_id}")
        active.driving.add_done_callback(lambda _: self._ended(active))

    def _ended(self, active: ActiveRun) -> None:
        del self._active[active.hold]
        if active.driving is not None and not active.driving.cancelled():
            active.driving.exception()
        self.work.ring()
        self._news.ring()

    async def _drive(self, active: ActiveRun) -> None:
        """Bring a run as far as it goes. It is left as it is where the store is away: its lease ends then."""
        try:
            while not await self._go_on(active):
                pass
        except LeftError as error:
            if not isinstance(error, LeaseLostError):
                _LOGGER.warning("run_left", run_id=active.hold.run_id, reason=str(error))
        except (StoreAwayError, TransportError) as error:
            _LOGGER.warning("run_left", run_id=active.hold.run_id, reason=str(error))

    async def _go_on(self, active: ActiveRun) -> bool:
        """Go on from the journal once, and return whether that is all for now."""
        hold = active.hold
        active.parked_with = frozenset()
        position, entries = await self._writes.do(self._records.load(hold))
        try:
            written = partial(self._written, active)
            active.journal = StoredJournal(self._records, self._writes, active.claimed, (position, entries), written)
        except (ValueError, KeyError, TypeError) as error:
            await self._end(active, failed("journal_damaged", f"The run's journal cannot be read: {error}"))
            return True
        active.advancing = advancing = asyncio.get_running_loop().create_task(self._advance(active))
        try:
            await asyncio.wait({advancing})
        except asyncio.CancelledError:
            advancing.cancel()
            await asyncio.wait({advancing})
            raise
        finally:
            active.advancing = None
        if advancing.cancelled():
            await self._writes.settle()
            return False
        outcome = advancing.result()
        if outcome is not None:
            await self._end(active, outcome)
            return True
        journal = active.journal
        known = -1 if journal.behind or active.parked_late else journal.position
        park = self._records.park(hold, known=known, waiting=active.parked_with, leeway=LEEWAY)
        parked = await self._writes.do(park)
        if parked:
            reach("run.parked")
        return parked

    async def _advance(self, active: ActiveRun) -> Outcome | None:
        current.set(active)
        offer = await self._offers.now()
        try:
            return await self._advancing.advance(active, offer)
        except ParkedError:
            return None
        except (StoreAwayError, TransportError):
            raise
        except Exception as error:
            reference = active.hold.run_id
            _LOGGER.exception("run_failed", run_id=reference)
            details = {"type": type(error).__name__, "reference": reference}
            return failed("internal", "The host failed with the run: see its log.", details)

    def _written(self, active: ActiveRun, *, asks: bool) -> None:
        self._news.ring()
        if self.replay_always:
            active.begin_anew()
        if asks:
            self.work.ring()  # it is to be told

    async def _end(self, active: ActiveRun, outcome: Outcome) -> None:
        await self._writes.do(self._records.end(active.hold, outcome))
        reach("run.ended")
