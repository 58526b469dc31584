"""A call that was started: at which stage it is, and what it tells while it runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.bounds import Bounds
    from grundlag_bus.providers.context import ActionContext
    from grundlag_bus.providers.oversight import Oversight
    from grundlag_bus.providers.run_lease import RunLease
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.schema.progress import Progress


class Stage(Enum):
    CHECKING = auto()
    """Nothing of the action ran: errors are about what the caller sent."""
    RUNNING = auto()
    """Errors are the action's."""
    FINISHING = auto()
    """Errors are about what the action returned."""
    CLOSING = auto()
    """Errors are those of services that end with the call."""


class Started:
    """One start of a call.

    context: what its action was given, if it came to that; over: whether the action has ended.
    """

    __slots__ = ("_bounds", "_loop", "_oversight", "_thread", "action", "call", "context", "over", "stage")

    def __init__(self, action: Action, call: Call, bounds: Bounds, oversight: Oversight) -> None:
        self.action = action
        self.call = call
        self.stage = Stage.CHECKING
        self.over = False
        self.context: ActionContext[Any] | None = None
        self._bounds = bounds
        self._oversight = oversight
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def touch(self) -> None:
        """Say that there is progress. From any thread."""
        self._bounds.touch()

    def report(self, progress: Progress) -> None:
        """Tell of progress, from the loop or from the action's thread."""
        self.touch()
        if self._oversight.sink is None:
            return
        if threading.get_ident() == self._thread:
            self._pass_on(progress)
        else:
            with suppress(RuntimeError):  # the loop is closed, and nobody listens
                self._loop.call_soon_threadsafe(self._pass_on, progress)

    def _pass_on(self, progress: Progress) -> None:
        if not self.over:
            self._oversight.report(progress)

    @property
    def lease(self) -> RunLease | None:
        return self._oversight.lease

    @property
    def emitted(self) -> list[dict[str, Any]]:
        return [] if self.context is None else self.context.emitted
