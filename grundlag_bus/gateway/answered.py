"""Which questions of scripts were answered in this process, and with what.

Rules:
- Questions are answered once: the same answer again has the same reply while that is kept, any other is refused.
- A script that was cancelled or ran out of time may be given its answer again: it goes on where it had asked.
- This is remembered by one process as long as it lives. Elsewhere a state can be sent again until it expires, and what
  followed its answer is called again; an action whose workers have a ledger takes an answer of its own only once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from grundlag_bus.errors import AnswerConflictError
from grundlag_bus.gateway.kept import Ended, KeptReplies
from grundlag_bus.schema.codec import digest

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Resumption

_MOST_REMEMBERED = 100_000


class Answered:
    """Remembers them by user and interrupt."""

    def __init__(self) -> None:
        self._digests: OrderedDict[tuple[str | None, str], str] = OrderedDict()
        self._kept = KeptReplies()
        self._running: set[tuple[str | None, str]] = set()

    def begin(self, user_id: str | None, resumption: Resumption) -> Ended | None:
        """Return what was replied to this answer before; None: it counts from now on. Raises AnswerConflictError."""
        key, asked = (user_id, resumption.interrupt_id), _digest(resumption)
        if key in self._running:
            raise AnswerConflictError("What this script asked is being answered by another request: wait for its end.")
        known = self._digests.get(key)
        if known is None:
            self._running.add(key)
            return None
        reply = self._kept.find(key)
        if known != asked or reply is None:
            what = "with something else" if known != asked else "and its reply is kept no more"
            raise AnswerConflictError(f"What this script asked was answered before, {what}: answer what it asked last.")
        return reply

    def end(self, user_id: str | None, resumption: Resumption, reply: Ended | None) -> None:
        """Keep the reply to an answer; where there is none, the answer may be given again."""
        key = user_id, resumption.interrupt_id
        self._running.discard(key)
        if reply is None:
            return
        self._kept.add(key, reply)
        self._digests[key] = _digest(resumption)
        if len(self._digests) > _MOST_REMEMBERED:
            self._digests.popitem(last=False)


def _digest(resumption: Resumption) -> str:
    return digest([resumption.answer, resumption.by])
