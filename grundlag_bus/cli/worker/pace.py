"""How patient a supervisor is with its worker processes. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

from grundlag_bus.telemetry.loop import PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often processes are looked at, how long they may be silent, and when they are started again.

    Silent for `unready_after`, a process serves nobody: its loop is blocked, and the broker has lost patience. Silent
    for `silent_after`, it fails the health of the whole; for `replaced_after`, it is killed and replaced, since its
    neighbours need not pay for that. One that never reported is starting, which may take `starting_within`. One that
    has lived for `settled_after` is well again, whatever came before; one that died `failing_at` times without that
    cannot live; it takes more than one call that kills whoever runs it.
    """

    look_every: float = 1.0
    unready_after: float = PATIENCE
    silent_after: float = 30.0
    replaced_after: float = 45.0
    starting_within: float = 300.0
    first_pause: float = 1.0
    longest_pause: float = 30.0
    settled_after: float = 60.0
    failing_at: int = 5
    ended_after_grace: float = 30.0
    """Until a process that should have drained is killed, beyond the grace time of its calls."""
    ended_after_abort: float = 10.0

    def pause(self, deaths: int) -> float:
        """Return how long to wait after this many deaths in a row before the next start."""
        return min(self.first_pause * 2.0 ** min(deaths - 1, 30), self.longest_pause)
