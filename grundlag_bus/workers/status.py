"""How a worker stands, as a value that may travel, and what that means for those who ask whether it serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.telemetry.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """How a worker stands at this moment.

    started: it takes calls, which it does no more once it drains; blocked: the broker does not let it publish, by its
    memory or disk alarm; consumers: of all its queues.
    """

    name: str
    providers: tuple[str, ...]
    lanes: tuple[str, ...]
    started: bool
    draining: bool
    in_flight: int
    connected: bool
    blocked: bool
    consumers_wanted: int
    consumers_actual: int


def ready(status: WorkerStatus) -> Report:
    """Report whether the worker takes calls and can reply to them, and else everything that is in the way."""
    return Report.of(tuple(_reasons(status)))


def _reasons(status: WorkerStatus) -> Iterator[str]:
    if status.draining:
        yield "draining"
    elif not status.started:
        yield "starting"
    if not status.connected:
        yield "not connected to the broker"
        return  # what is known of the rest is of the connection before
    if status.blocked:
        yield "publishing is blocked by the broker's memory or disk alarm"
    if status.consumers_actual < status.consumers_wanted and not status.draining:
        yield f"{status.consumers_actual} of {status.consumers_wanted} consumers are there"
