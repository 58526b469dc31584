"""The replies of calls that have just finished here, for deliveries that come again because their ack was lost.

A connection that ends takes with it what was settled on it and not yet written. The broker then hands the call out
again, often to the same worker: it replies again and does not run again. This is a help and no promise: another worker
may get the call, and only the newest are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call

_MOST_CALLS = 1000
_MOST_BYTES = 16 * 1024 * 1024


class Finished:
    """Keeps the newest replies with their calls, up to 1,000 and 16 MiB of envelopes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Call, bytes, int]] = OrderedDict()
        self._bytes = 0

    def add(self, call: Call, reply: bytes, *, size: int) -> None:
        """Keep a reply with its call, whose envelope has `size` bytes."""
        self.forget(call.call_id)
        self._kept[call.call_id] = (call, reply, size + len(reply))
        self._bytes += size + len(reply)
        while len(self._kept) > _MOST_CALLS or self._bytes > _MOST_BYTES:
            self.forget(next(iter(self._kept)))

    def reply_to(self, call: Call) -> bytes | None:
        """Return the encoded reply of this very call and generation, if it is kept."""
        kept = self._kept.get(call.call_id)
        if kept is None:
            return None
        finished, reply, _ = kept
        return reply if finished.generation == call.generation and finished.asks_the_same_as(call) else None

    def forget(self, call_id: str) -> None:
        kept = self._kept.pop(call_id, None)
        if kept is not None:
            self._bytes -= kept[2]
