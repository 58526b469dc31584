"""The entries of a script's journal, as they are read: whatever comes from a store or another process is checked first.

The kinds of entries:

began      once, at first
called     before a tool is called
settled    when it ended, or asks
answered   before it is called again with the answer
edited     before it is called with another input instead of being answered
delivered  before the script gets the outcome
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from grundlag_bus.errors import ScriptReplayError

_LATEST = 253_402_300_799  # the end of the year 9999
Instant = Annotated[float, Field(ge=0, le=_LATEST)]
Number = Annotated[int, Field(ge=0)]


def _aware(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("the time has no offset")
    return text


class _Data(BaseModel):
    model_config = ConfigDict(strict=True)


class Began(_Data):
    kind: Literal["began"]
    source: str
    inputs: dict[str, JsonValue]
    seed: str
    now: Instant
    engine: str


class Called(_Data):
    kind: Literal["called"]
    call: Number
    function: str
    digest: str
    input: JsonValue
    at: Instant


class _Completed(_Data):
    status: Literal["completed"]
    value: JsonValue


class _Failed(_Data):
    status: Literal["failed"]
    code: str
    message: str


class _Interrupt(_Data):
    interrupt_id: str = Field(alias="interruptId")
    message: str
    data: JsonValue
    state: JsonValue
    input: JsonValue
    answer_schema: dict[str, JsonValue] | None = Field(alias="answerSchema")
    expires_at: Annotated[str, AfterValidator(_aware)] | None = Field(alias="expiresAt")


class _Interrupted(_Data):
    status: Literal["interrupted"]
    interrupt: _Interrupt


class Settled(_Data):
    kind: Literal["settled"]
    call: Number
    outcome: Annotated[_Completed | _Failed | _Interrupted, Field(discriminator="status")]
    at: Instant


class Answered(_Data):
    kind: Literal["answered"]
    call: Number
    interrupt_id: str = Field(alias="interruptId")
    answer: JsonValue
    by: str | None


class Edited(_Data):
    kind: Literal["edited"]
    call: Number
    interrupt_id: str = Field(alias="interruptId")
    input: JsonValue
    by: str | None


class Delivered(_Data):
    kind: Literal["delivered"]
    call: Number


_ENTRY: TypeAdapter[Any] = TypeAdapter(
    Annotated[Began | Called | Settled | Answered | Edited | Delivered, Field(discriminator="kind")]
)


def check_entry(entry: Any) -> None:
    """Raise ScriptReplayError for what is no entry."""
    try:
        _ENTRY.validate_python(entry)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the entry itself"
        raise ScriptReplayError(
            f"An entry in the script's journal cannot be read ({place}: {first['msg']}): give it as it was written."
        ) from None
