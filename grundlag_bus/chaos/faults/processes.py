"""Processes that die, and processes that stop for a while and go on as if nothing had been."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal

from grundlag_bus.chaos.faults.fault import Fault, chosen
from grundlag_bus.chaos.schedule import Kind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from grundlag_bus.chaos.faults.fault import Ground
    from grundlag_bus.chaos.field import Victim

_Role = Literal["worker", "caller"]


@asynccontextmanager
async def _killed(ground: Ground, choice: int, *, role: _Role) -> AsyncIterator[str]:
    victim = chosen([each for each in _living(ground, role) if each.mortal], choice)
    with _held(victim) as process:
        _send(process, signal.SIGKILL)
    yield victim.name


@asynccontextmanager
async def _paused(ground: Ground, choice: int, *, role: _Role) -> AsyncIterator[str]:
    victim = chosen(_living(ground, role), choice)
    with _held(victim) as process:
        ground.held.add(victim.name)
        try:
            _send(process, signal.SIGSTOP)
            yield victim.name
        finally:
            _send(process, signal.SIGCONT)
            ground.held.discard(victim.name)


def _living(ground: Ground, role: _Role) -> list[Victim]:
    return [
        each
        for each in ground.field.victims()
        if each.role == role and each.pid is not None and each.name not in ground.held
    ]


@contextmanager
def _held(victim: Victim) -> Iterator[int | None]:
    """Give a descriptor of this very process: its id may be another's by the time of a signal. None: it has ended."""
    pid = victim.pid
    try:
        descriptor = None if pid is None else os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _send(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)


def _lacks(_: Ground) -> str | None:
    return None if hasattr(os, "pidfd_open") else "it needs Linux"


FAULTS = (
    Fault(Kind("worker-kill", small=True), partial(_killed, role="worker"), _lacks),
    Fault(Kind("caller-kill", small=True), partial(_killed, role="caller"), _lacks),
    Fault(Kind("worker-pause", (0.5, 4.0), small=True), partial(_paused, role="worker"), _lacks),
    Fault(Kind("caller-pause", (0.5, 4.0), small=True), partial(_paused, role="caller"), _lacks),
    # Past the ledger's lease and the connection's heartbeats: others have taken its work over when it goes on.
    Fault(Kind("worker-long-pause", (11.0, 14.0)), partial(_paused, role="worker"), _lacks),
)
