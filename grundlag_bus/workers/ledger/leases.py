"""The leases of a worker: renewed together, by one statement, and given up in time where that is not possible."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grundlag_bus.errors import StoreAwayError
from grundlag_bus.logs import get_logger
from grundlag_bus.workers.beside import Beside

if TYPE_CHECKING:
    from grundlag_bus.workers.ledger.lease import Lease
    from grundlag_bus.workers.ledger.outcomes import Hold
    from grundlag_bus.workers.ledger.presence import Presence
    from grundlag_bus.workers.ledger.records import Records

RENEWED_AFTER = 1 / 3
STOPPED_BEFORE = 1 / 6
"""Parts of a lease: how long before its end the action is stopped, and so has to end."""
_LOOKS = 1 / 20

_LOGGER = get_logger("grundlag_bus.workers")


class Leases:
    """Keeps them. lease: seconds; owner: the worker's name."""

    def __init__(self, records: Records, presence: Presence, *, lease: float, owner: str) -> None:
        self._records = records
        self._presence = presence
        self._lease = lease
        self._owner = owner
        self._held: dict[str, Lease] = {}
        self._dropped: list[Hold] = []
        self._beside = Beside()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def oldest(self) -> float:
        """For how many seconds the oldest one is held. May be asked in any thread."""
        return max((time.monotonic() - lease.since for lease in tuple(self._held.values())), default=0.0)

    def open(self) -> None:
        self._beside.do(self._keep())

    def add(self, lease: Lease) -> None:
        self._held[lease.hold.call_id] = lease

    def drop(self, lease: Lease) -> None:
        """Hold a lease no more; where nothing was recorded under it, the call is given back."""
        if self._held.get(lease.hold.call_id) is lease:
            del self._held[lease.hold.call_id]
        if not lease.concluded and not lease.muted:
            self._dropped.append(lease.hold)

    def give_back(self, hold: Hold) -> None:
        """Give a call back that was claimed for nobody."""
        self._dropped.append(hold)

    async def release(self) -> None:
        """Give back what was dropped. Raises StoreAwayError."""
        dropped, self._dropped = self._dropped, []
        if dropped:
            try:
                await self._presence.once(self._records.release(dropped))
            except BaseException:
                self._dropped += dropped
                raise

    async def renew(self) -> None:
        """Renew all that is held. Raises StoreAwayError."""
        since = _now()
        asked = [lease for lease in self._held.values() if not lease.stopped]
        if not asked:
            return
        holds = [lease.hold for lease in asked]
        renewed = await self._presence.once(self._records.renew(holds, self._owner))
        for lease in asked:
            if lease.hold in renewed:
                lease.until = since + self._lease
            elif not lease.concluded and self._held.get(lease.hold.call_id) is lease:
                self._presence.note("lease_lost")
                _LOGGER.warning("lease_lost", call_id=lease.hold.call_id, worker=self._owner)
                lease.stop()

    def close(self) -> None:
        self._beside.cancel()

    async def _keep(self) -> None:
        renewing: asyncio.Task[None] | None = None
        renewed_at = _now()
        try:
            while True:
                await asyncio.sleep(self._lease * _LOOKS)
                self._stop_what_ends()
                if renewing is not None and renewing.done():
                    renewing.result()
                    renewing = None
                if renewing is None and _now() - renewed_at >= self._lease * RENEWED_AFTER:
                    renewed_at = _now()
                    renewing = asyncio.get_running_loop().create_task(self._renew_and_release())
        finally:
            if renewing is not None:
                renewing.cancel()

    async def _renew_and_release(self) -> None:
        try:
            await self.renew()
            await self.release()
        except StoreAwayError as error:
            await self._presence.away(error)

    def _stop_what_ends(self) -> None:
        last = _now() + self._lease * STOPPED_BEFORE
        for lease in list(self._held.values()):
            if lease.until < last and not lease.stopped and not lease.concluded:
                self._presence.note("lease_not_renewed")
                _LOGGER.warning("lease_not_renewed", call_id=lease.hold.call_id, worker=self._owner)
                lease.stop()


def _now() -> float:
    return asyncio.get_running_loop().time()
