"""The ids of cancelled calls, for a day: none of them starts."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.schema.control import Cancel

KEPT_FOR = 24 * 3600.0
MOST = 200_000
"""Of more than that, the oldest are forgotten: some 30 MB."""


class Tombstones:
    """Remembers cancellations by the time at which they were asked for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked: OrderedDict[str, float] = OrderedDict()

    def add(self, cancel: Cancel) -> None:
        self._asked[cancel.call_id] = cancel.at
        while len(self._asked) > MOST or next(iter(self._asked.values())) < self._clock() - KEPT_FOR:
            self._asked.popitem(last=False)
            if not self._asked:
                return

    def __contains__(self, call_id: str) -> bool:
        asked = self._asked.get(call_id)
        return asked is not None and asked >= self._clock() - KEPT_FOR

    def __len__(self) -> int:
        return len(self._asked)
