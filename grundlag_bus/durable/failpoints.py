"""Named places between two steps, at which a test's own process may end itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

POINTS = (
    "run.claimed",
    "entry.began",
    "entry.replied",
    "entry.called",
    "call.recorded",
    "call.published",
    "call.confirmed",
    "reply.taken",
    "reply.recorded",
    "entry.settled",
    "entry.delivered",
    "run.parked",
    "notice.published",
    "run.ended",
)
"""In the order of a run's way; each has a test that kills a host there."""

hook: Callable[[str], None] | None = None
"""Called at each point. Nothing in this package sets it."""


def reach(point: str) -> None:
    if hook is not None:
        hook(point)
