"""Where a call belongs among the traces of a distributed system: W3C Trace Context, passed on and never made here.

What is malformed is dropped, as the specification has it: a trace is never a reason to refuse a call.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

LONGEST_STATE = 512
"""Characters of a tracestate that are passed on."""

_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{0,200})?")
_STATE = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MOST_MEMBERS = 32


@dataclass(frozen=True, slots=True)
class Trace:
    """What came with a call, or is to go with it: a `traceparent`, and the `tracestate` that belongs to it.

    Made by `Trace.of`, which checks them.
    """

    traceparent: str
    tracestate: str | None = None

    @classmethod
    def of(cls, traceparent: Any, tracestate: Any = None) -> Self | None:
        """Return the trace, None for a malformed traceparent; a malformed tracestate is left out."""
        parent = _PARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
        if parent is None or (parent[1] == "00" and parent[3] is not None):
            return None
        return cls(traceparent, _checked_state(tracestate))

    @property
    def trace_id(self) -> str:
        """The id of the whole trace: 32 hexadecimal digits."""
        return self.traceparent[3:35]

    def to_json(self) -> dict[str, str]:
        """Return it by the names of the two headers."""
        data = {"traceparent": self.traceparent}
        if self.tracestate is not None:
            data["tracestate"] = self.tracestate
        return data

    @classmethod
    def from_json(cls, data: Any) -> Self | None:
        """Read what `to_json` writes; None for what is malformed."""
        return cls.of(data.get("traceparent"), data.get("tracestate")) if type(data) is dict else None


CURRENT: ContextVar[Trace | None] = ContextVar("grundlag_trace", default=None)
"""That of the action that runs here: the calls that it makes belong to it, where they name none."""


def _checked_state(state: Any) -> str | None:
    """Return the members of a tracestate as one text; None where one of them is malformed, or there are too many."""
    if not isinstance(state, str):
        return None
    members = [member for part in state.split(",") if (member := part.strip(" \t"))]
    text = ",".join(members)
    fits = 0 < len(members) <= _MOST_MEMBERS and len(text) <= LONGEST_STATE
    return text if fits and all(map(_STATE.fullmatch, members)) else None
