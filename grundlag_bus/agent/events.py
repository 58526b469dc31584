"""What a run tells while it goes on, and how it ended: frozen values. `started_at` is in Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from grundlag_bus.agent.model import TextDelta, Usage

if TYPE_CHECKING:
    from datetime import datetime

    from grundlag_bus.agent.model import Cut, ModelReply, ToolCall
    from grundlag_bus.agent.results import ToolResult
    from grundlag_bus.errors import Issue, ModelError
    from grundlag_bus.schema.progress import Progress


@dataclass(frozen=True, slots=True)
class PendingInterrupt:
    """A question that a call waits with.

    data: for the person who answers; answer_schema: what fits as an answer, None where that is not told; refused: what
    was wrong with an answer that the action itself refused.
    """

    interrupt_id: str
    call: ToolCall
    message: str
    data: Any = None
    answer_schema: dict[str, Any] | None = None
    expires_at: datetime | None = None
    refused: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """In place of an answer: the call is not to run. reason: for the model; by: who rejected, if not the run's user."""

    reason: str | None = None
    by: str | None = None


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The model's reply is there as a whole, with the tokens that it took. turn: 1 for the transcript's first reply."""

    turn: int
    reply: ModelReply
    started_at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call is about to start, when the next event is asked for. resumed: it goes on after an answer."""

    turn: int
    call: ToolCall
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running call tells how far it is."""

    turn: int
    call: ToolCall
    progress: Progress


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A call has its result. started_at, seconds: of its last start; 0 seconds for one that never ran."""

    turn: int
    call: ToolCall
    result: ToolResult
    started_at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class InterruptRaised:
    """A call waits for an answer."""

    turn: int
    pending: PendingInterrupt


@dataclass(frozen=True, slots=True)
class AnswerRefused:
    """The action itself refused the answer; its interrupt is pending as before."""

    turn: int
    pending: PendingInterrupt


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A reply and all of its calls are done. usage: of this turn."""

    turn: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event."""

    result: RunResult


AgentEvent: TypeAlias = (
    TextDelta
    | ReplyEnded
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | InterruptRaised
    | AnswerRefused
    | TurnEnded
    | RunEnded
)

# --- the end ----------------------------------------------------------------------------------------------------------

RunStatus: TypeAlias = Literal["completed", "interrupted", "failed", "cancelled", "max_turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended, until it goes on.

    text: of the last reply; pending: what has to be answered, of `interrupted`; error: of `failed`; turns, usage: of
    the whole transcript; cut: why the last reply is not whole.
    """

    status: RunStatus
    text: str
    turns: int
    usage: Usage = field(default_factory=Usage)
    pending: tuple[PendingInterrupt, ...] = ()
    error: ModelError | None = None
    cut: Cut | None = None
