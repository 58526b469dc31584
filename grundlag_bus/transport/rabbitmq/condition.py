"""How a transport's connections are, and one log line for each change of that.

An outage is over when all of them have been up for some seconds: where the network loses them, they notice one after
the other, and the first may be up again before the last is down. So the line that tells its end comes three seconds
after it; its `outage_seconds` are those that it lasted.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError
from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.rabbitmq.link import Link

_log = get_logger(__name__)
_SETTLED = 3.0
"""Seconds: by that much two connections may differ in when they notice a silence, which is by heartbeats."""


class Condition:
    """What is wrong at the moment, of all connections together.

    publishing: the link whose connection the broker blocks, since it publishes.

    A broker that is short of memory or disk says so to a connection when that first publishes; a connection that is
    lost meanwhile hears no more of it.
    """

    def __init__(self, address: Address) -> None:
        self._address = str(address)
        self.publishing: Link | None = None
        self._down: set[Link] = set()
        self._outage: float | None = None
        self._lasted = 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._blocked: float | None = None
        self._complaint = ""

    @property
    def blocked(self) -> bool:
        return self._blocked is not None

    def link_changed(self, link: Link, reason: str | None) -> None:
        """Hear that a link is down for this reason, or up again (None)."""
        if reason is not None:
            self._down.add(link)
            if link is self.publishing:
                self._blocked = None
            if self._settling is not None:
                self._settling.cancel()
                self._settling = None
            if self._outage is None:
                self._outage = time.monotonic()
                _log.warning("bus.connection_lost", address=self._address, reason=reason)
            return
        self._down.discard(link)
        if not self._down and self._outage is not None:
            self._lasted = time.monotonic() - self._outage
            self._settling = asyncio.get_running_loop().call_later(_SETTLED, self._recovered)

    def _recovered(self) -> None:
        self._settling = self._outage = None
        self._complaint = ""
        _log.info("bus.connection_recovered", address=self._address, outage_seconds=round(self._lasted, 3))

    def close(self) -> None:
        """Hear no more, and leave nothing to be said later."""
        if self._settling is not None:
            self._settling.cancel()
            self._recovered()

    def connecting_fails(self, error: BaseException) -> None:
        """Hear what waiting does not mend, said once: a changed password, a changed topology, a defect."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            known = isinstance(error, GrundlagError)
            _log.error("bus.connecting_fails", reason=str(error), exc_info=None if known else error)

    def blocked_changed(self, reason: str | None) -> None:
        """Hear that the broker takes no publishes for this reason, or takes them again (None)."""
        if reason is not None and self._blocked is None:
            self._blocked = time.monotonic()
            _log.warning("bus.blocked", address=self._address, reason=reason)
        elif reason is None and self._blocked is not None:
            lasted, self._blocked = time.monotonic() - self._blocked, None
            _log.info("bus.unblocked", address=self._address, after_seconds=round(lasted, 3))
