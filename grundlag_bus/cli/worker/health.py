"""Whether worker processes are well, as a pure function of what was seen of them.

Live: each is heard of. Otherwise its loop is blocked, or its start hangs, and the supervisor is about to replace it.
Ready: at least one serves, and none is failing, which is: dying again and again. A process that died once is started
again within seconds and fails nothing as long as another one serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grundlag_bus.cli.worker.pace import Pace


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one process.

    silent: seconds since it was heard of, or since it was started; pid: None between two starts; unready: why it does
    not serve, None where it never reported; deaths: in a row; ended: how the last one did, a few words.
    """

    number: int
    pid: int | None
    silent: float
    unready: tuple[str, ...] | None
    deaths: int
    ended: str

    def __str__(self) -> str:
        return f"process {self.number}" if self.pid is None else f"process {self.number} (pid {self.pid})"


def is_silent(seen: Seen, pace: Pace) -> bool:
    """Whether a process has not been heard of for too long."""
    return _silent_beyond(seen, pace.silent_after, pace)


def is_to_be_replaced(seen: Seen, pace: Pace) -> bool:
    """Whether a process has not been heard of for so long that waiting is over."""
    return _silent_beyond(seen, pace.replaced_after, pace)


def not_live(processes: Iterable[Seen], pace: Pace) -> tuple[str, ...]:
    """Return what speaks against liveness."""
    return tuple(f"{seen} has not been heard of for {seen.silent:.0f} s" for seen in processes if is_silent(seen, pace))


def not_ready(processes: Sequence[Seen], pace: Pace) -> tuple[str, ...]:
    """Return what speaks against readiness."""
    failing = tuple(
        f"{seen} ended {seen.deaths} times in a row, at last {seen.ended}"
        for seen in processes
        if seen.deaths >= pace.failing_at
    )
    if any(seen.unready == () and not is_silent(seen, pace) for seen in processes):
        return failing
    return failing + tuple(f"{seen} {_why(seen, pace)}" for seen in processes if seen.deaths < pace.failing_at)


def _why(seen: Seen, pace: Pace) -> str:
    if seen.pid is None:
        return f"ended {seen.ended} and is about to be started again" if seen.ended else "is not started yet"
    if is_silent(seen, pace):
        return f"has not been heard of for {seen.silent:.0f} s"
    return "is starting" if seen.unready is None else ", ".join(seen.unready)


def _silent_beyond(seen: Seen, seconds: float, pace: Pace) -> bool:
    return seen.pid is not None and seen.silent > (pace.starting_within if seen.unready is None else seconds)
