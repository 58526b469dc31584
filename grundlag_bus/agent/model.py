"""What a model is asked and what it replies: frozen values, and the protocol between a run and a model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import orjson

from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.names import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# --- what is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDescription:
    """A tool as a model is shown it.

    name: what it is called by; input: JSON Schema; parallel_safe: may run beside its neighbours; provider_id and
    action_id: where it comes from, by which a run finds it again under another name. Models see neither of these.
    """

    name: str
    description: str
    input: dict[str, Any]
    parallel_safe: bool = False
    provider_id: str | None = None
    action_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model wants made.

    id: the model's own, unique in its transcript; arguments: JSON text, as the model wrote it.
    """

    id: str
    name: str
    arguments: str = "{}"

    @classmethod
    def of(cls, name: str, arguments: Any = None, *, id: str = "") -> ToolCall:  # noqa: A002  the field's name
        """Write a call as a model would; without an id the run gives it one. Raises NotJsonError."""
        return cls(id, name, orjson.dumps({} if arguments is None else plain(arguments)).decode())


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a person, or a program in a person's place, said."""

    text: str


@dataclass(frozen=True, slots=True)
class Replied:
    """What the model itself replied before, with what it kept for itself."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    kept: Any = None


@dataclass(frozen=True, slots=True)
class Returned:
    """What one call gave, as text for the model. It follows the reply that holds the call."""

    call_id: str
    name: str
    text: str
    ok: bool


Message: TypeAlias = Prompt | Replied | Returned


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that a model is told: it remembers nothing between requests."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDescription, ...] = ()
    instructions: str | None = None


# --- what is replied --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. cached: those of `input` that were read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output, self.cached + other.cached)


Cut: TypeAlias = Literal["length", "filtered"]
"""Why a reply ended before its end: it was too long, or its host held back the rest."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplyEnd:
    """The last part of every reply.

    kept: JSON data that the model wants back with this reply in later requests, as a vendor's signatures are.
    """

    usage: Usage = field(default_factory=Usage)
    cut: Cut | None = None
    kept: Any = None


ModelPart: TypeAlias = TextDelta | ToolCall | ReplyEnd
"""What a reply consists of, in the order in which it comes; tool calls are whole."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A reply as a whole."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cut: Cut | None = None
    kept: Any = None


class Model(Protocol):
    """Gives a reply to a request. `ScriptedModel` is the fake; `PydanticAIModel` reaches every vendor."""

    @property
    def name(self) -> str:
        """Name it for the transcript."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Give the reply part by part, a ReplyEnd last. Raises ModelError.

        It is cancelled, or closed before its end, when the run is cancelled; it runs in a coroutine of its own.
        """


def callable_name(name: str) -> str:
    """Make a name that every vendor takes back of one that a model made up."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_NAME] or "_"


def is_callable_name(name: str) -> bool:
    """Tell whether every vendor takes a tool of this name."""
    return callable_name(name) == name
