"""What a run that is another try takes over from the one before: the results of the calls that ask the same.

A result is taken for the next call of the same action with the same input, in the order in which they were sent, and
recorded as that call's own before it counts. Whether a person had to answer on the way makes no difference.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from grundlag_bus.schema.codec import digest
from grundlag_bus.schema.envelope import Completed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.durable.call_records import EndedCall
    from grundlag_bus.schema.envelope import Call


class Reuse:
    """The results that are left. before: the calls of the run before; now: those that this one has had already."""

    def __init__(self, before: Iterable[EndedCall] = (), now: Iterable[EndedCall] = ()) -> None:
        self._left: dict[tuple[str, str, str], deque[Completed]] = defaultdict(deque)
        for ended in before:
            if isinstance(ended.response, Completed):
                self._left[_asks(ended.call)].append(ended.response)
        for ended in now:
            if isinstance(ended.response, Completed):
                self.take(ended.call)

    def take(self, call: Call) -> Completed | None:
        """Take the result for a call, where there is one."""
        left = self._left.get(_asks(call))
        return left.popleft() if left else None

    def give_back(self, call: Call, result: Completed) -> None:
        """Leave a result for the next call, since this one had been recorded."""
        self._left[_asks(call)].appendleft(result)


def _asks(call: Call) -> tuple[str, str, str]:
    return call.provider_id, call.action_id, digest(call.request.input)
