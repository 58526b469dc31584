"""The seam to what executes a script: it runs until it is blocked, is given outcomes one at a time, and runs on.

Calls are numbered from 0 in the order in which the script makes them. Same program, same outcomes in the same order:
same calls, same numbers, same value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.sandbox.script.limits import Limits
    from grundlag_bus.sandbox.script.stubs import Function


@dataclass(frozen=True, slots=True)
class Program:
    """What is executed.

    inputs: bound as names; seed, now: of chance and of the clock, which stands still (Unix seconds);
    source: as it is executed; declared: what its type check needs beside the tools and the inputs, as Python text;
    checked: whether its types were found to fit before.
    """

    source: str
    inputs: Mapping[str, Any]
    functions: Mapping[str, Function]
    limits: Limits
    seed: str
    now: float
    declared: str = ""
    checked: bool = False


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that the script has made. input: plain JSON data."""

    number: int
    function: str
    input: Any
    line: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """The script goes on when one of the pending calls has an outcome. calls: made since the last time."""

    calls: tuple[MadeCall, ...]
    pending: frozenset[int]


@dataclass(frozen=True, slots=True)
class Finished:
    """The script ended. value: of its last expression, of any type; calls: made since the last time, never awaited."""

    value: Any
    calls: tuple[MadeCall, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script is given for a call: a value, or the text of the RuntimeError that it raises."""

    value: Any = None
    error: str | None = None


class Engine(Protocol):
    """One execution. All methods but `kill` block, and are called in one thread; each raises ScriptError.

    printed: what the script has printed since it started.
    """

    @property
    def printed(self) -> str: ...

    def start(self, program: Program) -> Blocked | Finished:
        """Check the types, unless they are checked, and run until the script is blocked or has ended."""

    def deliver(self, number: int, answer: Answer) -> Blocked | Finished:
        """Hand over the outcome of a pending call and run on."""

    def kill(self) -> None:
        """End it at once, from any thread; what blocks raises ScriptLimitError. It may not have started yet."""

    def close(self) -> None:
        """Give back all that it holds."""
