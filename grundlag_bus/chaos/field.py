"""What the two sides of the suite know of each other: the fleet that calls and serves, and the faults that befall it.

Instants are seconds of `time.monotonic()`, which is one clock for all processes of a machine and is not moved by a jump
of the time of day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

RECOVERS_WITHIN = 10.0
"""Seconds after its healing in which calls complete again, for a fault that names no bound of its own."""

QUEUE_DELETION = "queue-deletion"
"""The fault that takes with it what waited in a queue: its mark's target is the queue's name."""
CLOCK_JUMP = "clock-jump"
"""The fault after which a process may take a deadline for passed that is not."""


class Victim(Protocol):
    """A process of the fleet. Its keeper starts it again, after a pause, whenever it has died.

    mortal: whether it may be killed; the others show how memory grows over many calls, and may be stopped, cut off and
    confused all the same.
    """

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Literal["worker", "caller"]: ...

    @property
    def mortal(self) -> bool: ...

    @property
    def pid(self) -> int | None:
        """None while it is down."""


class Proxy(Protocol):
    """What the fleet connects through."""

    @property
    def url(self) -> str: ...

    async def cut(self) -> None:
        """Drop every connection; new ones are well."""

    async def delay(self, seconds: float) -> None:
        """Hold everything for so long, in each direction, until healed."""

    async def freeze(self) -> None:
        """Forward nothing more on the connections that there are, not even their end, until healed."""

    async def heal(self) -> None: ...


class NodeControl(Protocol):
    """A broker of our own: one node, or a cluster, whose nodes are known by their names."""

    @property
    def nodes(self) -> Sequence[str]: ...

    async def restart(self, node: str) -> None:
        """Stop it gracefully and start it again; return when it serves."""

    async def kill(self, node: str) -> None: ...

    async def start(self, node: str) -> None:
        """Start it again and return when it serves."""

    async def pause(self, node: str) -> None: ...

    async def go_on(self, node: str) -> None: ...

    async def alarm(self, node: str) -> None: ...

    async def lift(self, node: str) -> None: ...

    async def partition(self, node: str) -> None:
        """Cut it off from the other nodes."""

    async def join(self, node: str) -> None:
        """Let it reach the others again."""


class DatabaseControl(Protocol):
    """The server of the ledger."""

    async def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Field:
    """What faults may touch.

    url: the broker itself, past the proxy, for whoever administers it; None: there is none, or nobody may touch it.
    """

    victims: Callable[[], Sequence[Victim]]
    url: str
    namespace: str
    proxy: Proxy | None = None
    node: NodeControl | None = None
    database: DatabaseControl | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A fault that began, and once more when it has healed.

    target: what it befell: a process, a node, or the name of the queue that was deleted; until: None while it lasts;
    within: seconds after it in which calls complete again.
    """

    at: float
    fault: str
    target: str
    until: float | None = None
    within: float = RECOVERS_WITHIN


class Nemesis(Protocol):
    """Makes faults happen, by a schedule of its own."""

    def environment(self, victim: str, folder: Path) -> Mapping[str, str]:
        """Give what a process of the fleet needs in its environment, so that its clock can be moved; asked at a start.

        folder: where both may keep files.
        """

    def left_out(self, field: Field) -> Mapping[str, str]:
        """Name each fault that cannot be made here, with the reason."""

    async def __call__(self, field: Field, mark: Callable[[Mark], None]) -> None:
        """Go through the whole schedule, and heal everything before the end. Cancelled, heal what there is and stop."""
