"""Whether worker processes are well, as a pure function of what was seen of them.

Live: each is heard of. Otherwise its loop is blocked, or its start hangs, and the supervisor is about to replace it.
Ready: at least one serves, and none is failing, which is: dying again and again. A process that died once is started
again within seconds, and one that is silent for longer than the broker is patient serves nobody: neither fails anything
as long as another one serves. Where the whole is not ready, each that does not serve is named.
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


def is_to_be_replaced(seen: Seen, pace: Pace) -> bool:
    """Whether a process has not been heard of for so long that waiting is over."""
    return _silent_beyond(seen, pace.replaced_after, pace)


def not_live(processes: Iterable[Seen], pace: Pace) -> tuple[str, ...]:
    """Return what speaks against liveness."""
    return tuple(_silence(seen) for seen in processes if _silent_beyond(seen, pace.silent_after, pace))


def not_ready(processes: Sequence[Seen], pace: Pace) -> tuple[str, ...]:
    """Return what speaks against readiness."""
    wrong = [why for seen in processes if (why := _wrong(seen, pace)) is not None]
    failing = any(seen.deaths >= pace.failing_at for seen in processes)
    return () if len(wrong) < len(processes) and not failing else tuple(wrong)


def _wrong(seen: Seen, pace: Pace) -> str | None:
    """Say why a process does not serve, or what is to be feared for it."""
    if seen.deaths >= pace.failing_at:
        return f"{seen} ended {seen.deaths} times in a row, at last {seen.ended}"
    if seen.pid is None:
        return (
            f"{seen} ended {seen.ended} and is about to be started again"
            if seen.ended
            else f"{seen} is not started yet"
        )
    if _silent_beyond(seen, pace.unready_after, pace):
        return _silence(seen)
    if seen.unready is None:
        return f"{seen} is starting"
    return f"{seen}: {', '.join(seen.unready)}" if seen.unready else None


def _silence(seen: Seen) -> str:
    return f"{seen} has not been heard of for {seen.silent:.0f} s"


def _silent_beyond(seen: Seen, seconds: float, pace: Pace) -> bool:
    return seen.pid is not None and seen.silent > (pace.starting_within if seen.unready is None else seconds)
