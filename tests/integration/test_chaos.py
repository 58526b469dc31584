"""The suite itself, on a real broker: its processes die and are replaced, and its verdict is about what happened."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grundlag_bus.chaos.cases import cases_of
from grundlag_bus.chaos.checker import Verdict
from grundlag_bus.chaos.field import Field, Mark
from grundlag_bus.chaos.history import CALLER_DIED, read_all
from grundlag_bus.chaos.load import WEIGHTS
from grundlag_bus.chaos.run import Ground, Size, run_chaos
from grundlag_bus.errors import ConfigurationError

SIZE = Size(workers=2, callers=2, rate=40.0, kept_share=0.1, lease=5.0)


@dataclass
class Killing:
    """Kills each process that may be killed, once, `after` seconds of calling."""

    after: float = 2.0
    killed: list[str] = field(default_factory=list)

    def environment(self, victim: str, folder: Path) -> Mapping[str, str]:
        return {}

    def left_out(self, field: Field) -> Mapping[str, str]:
        return {}

    async def __call__(self, field: Field, mark: Callable[[Mark], None]) -> None:
        await asyncio.sleep(self.after)
        for victim in field.victims():
            if victim.mortal and victim.pid is not None:
                at = time.monotonic()
                os.kill(victim.pid, signal.SIGKILL)
                self.killed.append(victim.name)
                mark(Mark(at, f"{victim.role}-kill", victim.name, time.monotonic(), within=60.0))


async def run(url: str, folder: Path, nemesis: Killing, *, seconds: float = 8.0) -> Verdict:
    return await run_chaos(
        Ground(url), nemesis, seconds=seconds, seed=1, folder=folder, environment=os.environ, size=SIZE
    )


async def test_every_call_ends_once_though_processes_are_killed(amqp_url: str, tmp_path: Path) -> None:
    nemesis = Killing()
    verdict = await run(amqp_url, tmp_path, nemesis)
    assert verdict.broken == ()
    assert sorted(nemesis.killed) == ["caller-2", "worker-2"]
    assert verdict.lives == {"caller-1": 1, "caller-2": 2, "worker-1": 1, "worker-2": 2}
    assert sum(verdict.ended.values()) == verdict.attempted > 0
    assert set(verdict.kinds) <= set(WEIGHTS)
    assert {each.fault: each.count for each in verdict.recoveries} == {"worker-kill": 1, "caller-kill": 1}

    cases, unknown = cases_of(read_all(tmp_path))
    assert not unknown
    taken_over = [case for case in cases.values() if len(case.attempts) > 1]
    assert all(case.first.repeatable and case.first.caller == "caller-2" for case in taken_over)
    died = [case for case in cases.values() if case.end is not None and case.end.how == CALLER_DIED]
    assert all(case.first.caller == "caller-2" and not case.first.repeatable for case in died)
    assert taken_over or died


class NeverBeginning(Killing):
    def environment(self, victim: str, folder: Path) -> Mapping[str, str]:
        package = folder / "grundlag_bus"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").write_text("raise RuntimeError('nothing works here')")
        return {"PYTHONPATH": str(folder)}


async def test_a_run_that_cannot_begin_says_what_its_process_said(amqp_url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worker-1 does not begin; it said .* nothing works here\."):
        await run(amqp_url, tmp_path, NeverBeginning())
