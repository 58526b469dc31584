"""What happened, as lines in files: each process of the fleet appends to a file of its own, and never changes one.

A line is written by one system call before what follows from it is done, and is not synchronised to the disk: it
outlives the process, which is what dies here, and not the machine. Instants are those of `time.monotonic()`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson

from grundlag_bus.chaos.field import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUFFIX = ".history"
CALLER_DIED = "caller_died"
"""How a call ended that may not be called again, and whose caller died: nobody knows."""


@dataclass(frozen=True, slots=True)
class Began:
    """A process began. life: counts those of its name, from 1."""

    at: float
    process: str
    life: int
    pid: int


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A caller's replies come to this queue."""

    at: float
    queue: str


@dataclass(frozen=True, slots=True)
class Attempted:
    """A caller is about to send a call, for the first time or as its dead predecessor's successor.

    ordinal: of its plan; kind: what it is to show; kept: by workers with a ledger; repeatable: whether it may be sent
    again where nobody knows of it; queue: where it waits for a worker; until: its deadline; answers: the call whose
    interrupt it answers.
    """

    at: float
    call_id: str
    caller: str
    ordinal: int
    kind: str
    kept: bool
    repeatable: bool
    queue: str
    until: float
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker confirmed a call."""

    at: float
    call_id: str


@dataclass(frozen=True, slots=True)
class Told:
    """A caller heard of a call before its end."""

    at: float
    call_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A call ended at its caller.

    how: `completed`, `interrupted`, a code, or `caller_died`; by: the worker that says so, or `caller`; fits: whether
    what came with it is this call's; fence: of the start that the result is from, where there is one; asks: what is
    needed to answer an interrupt.
    """

    at: float
    call_id: str
    how: str
    by: str
    fits: bool = True
    fence: int | None = None
    told: str | None = None
    asks: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A worker started an action for a call."""

    at: float
    call_id: str
    worker: str
    attempt: int
    fence: int | None


@dataclass(frozen=True, slots=True)
class Effect:
    """An action did what it does, outside of any database."""

    at: float
    call_id: str
    worker: str
    fence: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """A process after so many calls. size: bytes that it has of the machine's memory."""

    at: float
    process: str
    life: int
    calls: int
    size: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A process ended in order. late: replies that nothing waited for; left: tasks and futures that were not done."""

    at: float
    process: str
    late: int = 0
    left: list[str] = field(default_factory=list)


Record = Began | Mailbox | Attempted | Acknowledged | Told | Ended | Started | Effect | Memory | Closed | Mark

_KINDS: dict[str, type[Record]] = {
    kind.__name__.lower(): kind
    for kind in (Began, Mailbox, Attempted, Acknowledged, Told, Ended, Started, Effect, Memory, Closed, Mark)
}


class History:
    """A file that one process appends to. As a context manager it closes itself."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, record: Record) -> None:
        """Append it. May be called in any thread."""
        line = orjson.dumps([type(record).__name__.lower(), record], option=orjson.OPT_APPEND_NEWLINE)
        os.write(self._descriptor, line)


def file_of(folder: Path, process: str, life: int) -> Path:
    """Name the file of a process in one of its lives."""
    return folder / f"{process}.{life}{SUFFIX}"


def read(file: Path) -> Iterator[Record]:
    """Read what a process wrote; a last line without an end was being written when it was killed."""
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                kind, fields = orjson.loads(line)
                yield _KINDS[kind](**fields)


def read_all(folder: Path, process: str = "*") -> Iterator[Record]:
    """Read what every process wrote, or every life of one: each file in its order, the files in no order."""
    for file in sorted(folder.glob(f"{process}.*{SUFFIX}")):
        yield from read(file)
