"""Named places between two steps, at which a test's own process may end itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS = (
    "claim.before",
    "claim.granted",
    "early.published",
    "early.recorded",
    "early.settled",
    "answer.consumed",
    "checkpoint.recorded",
    "run.ended",
    "outcome.recorded",
    "letter.published",
    "reply.published",
    "reply.marked",
    "handover.recorded",
    "handover.published",
    "handover.marked",
    "watch.published",
    "copy.published",
    "copy.replaced",
    "drain.released",
    "drain.published",
)
"""In the order of a call's way; each has a test that kills a worker there."""

hook: Callable[[str], None] | None = None
"""Called at each point. Nothing in this package sets it."""


def reach(point: str) -> None:
    if hook is not None:
        hook(point)
