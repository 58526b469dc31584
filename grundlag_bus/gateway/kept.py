"""Replies that are kept for a while, for who comes again with the same key."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[str | None, str]

KEPT_SECONDS = 60.0
MOST_KEPT = 10_000
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended, ready to be sent. digest: of what it asked for; None fits whatever is asked."""

    call_id: str
    status: int
    body: bytes
    digest: str | None


class KeptReplies:
    """The newest replies by their keys, as many as there is room for."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lacks_until = clock() + KEPT_SECONDS  # until then those of the process before it may be asked for
        self._kept: OrderedDict[Key, tuple[float, Ended]] = OrderedDict()
        self._bytes = 0

    def add(self, key: Key, ended: Ended) -> None:
        self.forget(key)
        self._kept[key] = self._clock() + KEPT_SECONDS, ended
        self._bytes += len(ended.body)
        while self._kept and (len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES or self._oldest_is_over()):
            oldest = next(iter(self._kept))
            self._lacks_until = max(self._lacks_until, self._kept[oldest][0])
            self.forget(oldest)

    def find(self, key: Key) -> Ended | None:
        until, ended = self._kept.get(key, (0.0, None))
        return ended if ended is not None and self._clock() < until else None

    @property
    def is_whole(self) -> bool:
        """Whether every reply of the last minute is there."""
        return self._clock() >= self._lacks_until

    def forget(self, key: Key) -> None:
        _, ended = self._kept.pop(key, (0.0, None))
        if ended is not None:
            self._bytes -= len(ended.body)

    def _oldest_is_over(self) -> bool:
        until, _ = next(iter(self._kept.values()))
        return self._clock() >= until
