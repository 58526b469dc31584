"""A verdict as JSON, and the figures that each form of the report shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grundlag_bus.chaos.checker import Verdict
    from grundlag_bus.chaos.field import Mark
    from grundlag_bus.chaos.recovery import Recovery

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict with what was asked for. left_out: the faults that could not be made, with the reason."""

    verdict: Verdict
    seed: int
    seconds: float
    broker: str
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether no promise was broken."""
        return not self.verdict.broken

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the figures, each with its name."""
        verdict, ended = self.verdict, self.verdict.ended
        yield "attempted", f"{verdict.attempted}"
        yield "acknowledged by the broker", f"{verdict.acknowledged}"
        yield "completed", f"{ended.get('completed', 0)}"
        yield "interrupted", f"{ended.get('interrupted', 0)}"
        for code, count in verdict.failed.items():
            yield f"failed: {code}", f"{count}"
        yield "ended with a dead caller", f"{ended.get('caller_died', 0)}"
        yield "lost", f"{verdict.lost}"
        yield "hung", f"{verdict.hung}"
        duplicated = verdict.duplicated
        yield "effects twice, without a ledger", f"{duplicated['without']} (no promise)"
        yield "effects twice, with a ledger", f"{duplicated['with']} outside of its database (no promise)"
        yield "effects twice, in its database", f"{duplicated['stored']}"
        yield "late replies", f"{verdict.late}"
        for code, count in sorted(verdict.letters.items()):
            yield f"dead letters: {code}", f"{count}"
        yield "faults", f"{len(verdict.marks)}"
        for growth in verdict.growths:
            yield (
                f"memory of {growth.process}",
                f"{growth.share:+.1%} from {growth.calls // 10} to {growth.calls} calls",
            )

    def told(self) -> Iterator[str]:
        """Yield the promises that were broken, a sentence each; of one promise not more than some."""
        counts: dict[str, int] = {}
        for broken in self.verdict.broken:
            counts[broken.promise] = counts.get(broken.promise, 0) + 1
            if counts[broken.promise] <= _MOST_TOLD:
                yield f"{broken.promise}: {broken.told}"
        for promise, count in counts.items():
            if count > _MOST_TOLD:
                yield f"{promise}: {count - _MOST_TOLD} more"

    def to_json(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "kept": self.kept,
            "seed": self.seed,
            "seconds": self.seconds,
            "broker": self.broker,
            "attempted": verdict.attempted,
            "acknowledged": verdict.acknowledged,
            "completed": verdict.ended.get("completed", 0),
            "interrupted": verdict.ended.get("interrupted", 0),
            "failed": verdict.failed,
            "callerDied": verdict.ended.get("caller_died", 0),
            "lost": verdict.lost,
            "hung": verdict.hung,
            "duplicatedEffects": {
                "withoutLedger": verdict.duplicated["without"],
                "withLedger": verdict.duplicated["with"],
                "inLedgerDatabase": verdict.duplicated["stored"],
            },
            "lateReplies": verdict.late,
            "deadLetters": dict(sorted(verdict.letters.items())),
            "kinds": dict(sorted(verdict.kinds.items())),
            "lives": dict(sorted(verdict.lives.items())),
            "faults": {each.fault: _fault_to_json(each) for each in verdict.recoveries},
            "leftOut": dict(self.left_out),
            "memory": {
                growth.process: {"calls": growth.calls, "early": growth.early, "late": growth.late}
                for growth in verdict.growths
            },
            "broken": [{"promise": each.promise, "told": each.told, "callId": each.call_id} for each in verdict.broken],
            "throughput": list(verdict.throughput.completed),
            "marks": [_mark_to_json(mark, verdict.throughput.begin) for mark in verdict.marks],
        }


def _fault_to_json(recovery: Recovery) -> dict[str, Any]:
    seconds = recovery.seconds
    finite = seconds if seconds is None or seconds != float("inf") else None
    told = {"count": recovery.count, "judged": recovery.judged, "bound": recovery.bound}
    return {**told, "worst": finite, "recovered": not recovery.too_slow}


def _mark_to_json(mark: Mark, begin: float) -> dict[str, Any]:
    until = None if mark.until is None else round(mark.until - begin, 3)
    return {"at": round(mark.at - begin, 3), "until": until, "fault": mark.fault, "target": mark.target}
