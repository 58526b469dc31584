"""Replies that are kept for a while, for who comes again with the same key.

Rules:
- There is room for so many in all, whoever they are of: a user alone has all of it.
- When there is no more, the user with the most of it gives up the oldest reply: nobody pushes out what another has
  within an even share.
- Of each user it is known whether a reply of the last minute may be missing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Share:
    """What one user has of the room: keys, the oldest first, and bytes."""

    keys: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    bytes: int = 0

    @property
    def size(self) -> float:
        return max(len(self.keys) / MOST_KEPT, self.bytes / MOST_BYTES)


class KeptReplies:
    """The newest replies by their keys, as many as there is room for."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all_lack_until = clock() + KEPT_SECONDS  # those of the process before it may be asked for
        self._lacks_until: OrderedDict[str | None, float] = OrderedDict()
        self._kept: OrderedDict[Key, tuple[float, Ended]] = OrderedDict()
        self._shares: dict[str | None, _Share] = {}
        self._bytes = 0

    def add(self, key: Key, ended: Ended) -> None:
        self._forget(key)
        now = self._clock()
        self._kept[key] = now + KEPT_SECONDS, ended
        self._bytes += len(ended.body)
        share = self._shares.setdefault(key[0], _Share())
        share.keys[key] = None
        share.bytes += len(ended.body)
        self._let_go_of_what_is_over(now)
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES:
            self._push_out()

    def find(self, key: Key) -> Ended | None:
        until, ended = self._kept.get(key, (0.0, None))
        return ended if ended is not None and self._clock() < until else None

    def is_whole(self, user_id: str | None) -> bool:
        """Whether every reply of the user of the last minute is there."""
        return self._clock() >= max(self._all_lack_until, self._lacks_until.get(user_id, 0.0))

    def _push_out(self) -> None:
        """Let go of the oldest reply of the user who has the most."""
        user_id = max(self._shares, key=lambda user: self._shares[user].size)
        oldest = next(iter(self._shares[user_id].keys))
        until = max(self._kept[oldest][0], self._lacks_until.pop(user_id, 0.0))
        self._lacks_until[user_id] = until
        self._forget(oldest)

    def _let_go_of_what_is_over(self, now: float) -> None:
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._forget(next(iter(self._kept)))
        while self._lacks_until and next(iter(self._lacks_until.values())) <= now:
            self._lacks_until.popitem(last=False)

    def _forget(self, key: Key) -> None:
        _, ended = self._kept.pop(key, (0.0, None))
        if ended is not None:
            share = self._shares[key[0]]
            del share.keys[key]
            share.bytes -= len(ended.body)
            self._bytes -= len(ended.body)
            if not share.keys:
                del self._shares[key[0]]
