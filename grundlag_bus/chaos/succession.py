"""What a caller takes over from its predecessors, who died: decided from what they wrote.

- A call that has no end and may be sent again (its action is idempotent, or its workers have a ledger) is called again
  with the same id, and its end is the call's.
- Any other call without an end has one now: `caller_died`. Its reply went to a mailbox that nobody reads, and to call
  it again could run it twice, which the design leaves to nobody.
- An interrupt that was not answered yet is answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.chaos.history import Attempted, Ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.chaos.history import Record


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A plan to go on with. asks: what its first call asked, where that is to be answered; first: that call."""

    ordinal: int
    asks: dict[str, Any] | None = None
    first: str | None = None


@dataclass(frozen=True, slots=True)
class Legacy:
    """next_ordinal: of the first call that was never attempted; died: the calls that nobody will know the end of."""

    next_ordinal: int
    again: tuple[Unfinished, ...]
    died: tuple[str, ...]


def take_over(records: Iterable[Record]) -> Legacy:
    """Decide what becomes of the calls of one caller's earlier lives, whatever order their records are in."""
    attempted: dict[str, Attempted] = {}
    ended: dict[str, Ended] = {}
    for record in records:
        match record:
            case Attempted():
                attempted.setdefault(record.call_id, record)
            case Ended():
                ended.setdefault(record.call_id, record)
            case _:
                pass
    again: list[Unfinished] = []
    died: list[str] = []
    answered = {each.answers for each in attempted.values()}
    for call_id, each in attempted.items():
        end = ended.get(call_id)
        if end is None and not each.repeatable:
            died.append(call_id)
        elif end is None:
            asked = None if each.answers is None else ended[each.answers].asks
            again.append(Unfinished(each.ordinal, asked, each.answers))
        elif end.asks is not None and call_id not in answered:
            again.append(Unfinished(each.ordinal, end.asks, call_id))
    newest = max((each.ordinal for each in attempted.values()), default=0)
    return Legacy(newest + 1, tuple(again), tuple(died))
