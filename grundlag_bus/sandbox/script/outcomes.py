"""How a script's call ended, as data in a journal and as the answer that the script is given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from grundlag_bus.errors import CallError, Defer, NotJsonError, ToolInterrupt
from grundlag_bus.logs import get_logger
from grundlag_bus.sandbox.script.engine import Answer
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Awaitable

_LOGGER = get_logger("grundlag_bus.sandbox")


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended: `completed` with a value, `failed` with code and message, `interrupted` with the interrupt."""

    status: str
    value: Any = None
    code: str | None = None
    message: str | None = None
    interrupt: ToolInterrupt | None = None

    @property
    def answer(self) -> Answer | None:
        """What the script is given; None where a person must answer first."""
        if self.status == "interrupted":
            return None
        return Answer(value=self.value) if self.status == "completed" else Answer(error=f"{self.code}: {self.message}")

    def to_json(self) -> dict[str, Any]:
        match self.status:
            case "completed":
                return {"status": "completed", "value": self.value}
            case "failed":
                return {"status": "failed", "code": self.code, "message": self.message}
            case _:
                assert self.interrupt is not None  # noqa: S101  for the type checker
                return {"status": "interrupted", "interrupt": interrupt_to_json(self.interrupt)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CallOutcome:
        """Read what `to_json` wrote."""
        match data["status"]:
            case "completed":
                return cls("completed", value=data["value"])
            case "failed":
                return cls("failed", code=data["code"], message=data["message"])
            case _:
                return cls("interrupted", interrupt=interrupt_from_json(data["interrupt"]))


async def outcome_of(  # noqa: PLR0911  one for each ending
    call: Awaitable[Any], given: Any, function: str
) -> CallOutcome:
    """Await a tool and say how it ended. Raises CancelledError where it is this coroutine that is cancelled."""
    try:
        return CallOutcome("completed", value=plain(await call))
    except ToolInterrupt as interrupt:
        return _interrupted(interrupt, given, function)
    except NotJsonError as error:
        return CallOutcome("failed", code="output_invalid", message=f"{function} returned no plain JSON data: {error}")
    except CallError as error:
        return _failed(error.code, error.message, function)
    except Defer:
        return CallOutcome("failed", code="internal", message=f"{function} raised Defer, which is for actions alone")
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return CallOutcome("failed", code="cancelled", message=f"{function} cancelled itself")
    except Exception as error:
        _LOGGER.exception("tool_of_script_failed", function=function)
        kind = type(error).__name__
        try:
            return _failed("internal", f"{function} raised {kind}: {short(str(error), 500)}", function)
        except Exception:  # noqa: BLE001  an error that cannot say what it is
            return CallOutcome("failed", code="internal", message=f"{function} raised {kind}")


def _failed(code: str, message: str, function: str) -> CallOutcome:
    """Keep a failure as data; text that nothing can write is left out."""
    try:
        return CallOutcome("failed", code=plain(str(code)), message=plain(str(message)))
    except NotJsonError as error:
        told = f"{function} failed, and why cannot be told: {error}"
        return CallOutcome("failed", code="internal", message=told)


def _interrupted(interrupt: ToolInterrupt, given: Any, function: str) -> CallOutcome:
    """Keep an interrupt as data; one that no action's worker named gets an id here."""
    try:
        plain(interrupt.expires_at)  # with an offset, or it is no time
        return CallOutcome(
            "interrupted",
            interrupt=ToolInterrupt(
                plain(str(interrupt.message)),
                data=plain(interrupt.data),
                state=plain(interrupt.state),
                interrupt_id=plain(str(interrupt.interrupt_id or uuid4().hex)),
                input=given if interrupt.interrupt_id is None else plain(interrupt.input),
                answer_schema=plain(interrupt.answer_schema),
                expires_at=interrupt.expires_at,
            ),
        )
    except NotJsonError as error:
        return CallOutcome("failed", code="output_invalid", message=f"The question of {function} is no JSON: {error}")


def interrupt_to_json(interrupt: ToolInterrupt) -> dict[str, Any]:
    return {
        "interruptId": interrupt.interrupt_id,
        "message": interrupt.message,
        "data": interrupt.data,
        "state": interrupt.state,
        "input": interrupt.input,
        "answerSchema": interrupt.answer_schema,
        "expiresAt": None if interrupt.expires_at is None else interrupt.expires_at.isoformat(),
    }


def interrupt_from_json(data: dict[str, Any]) -> ToolInterrupt:
    expires = data["expiresAt"]
    return ToolInterrupt(
        data["message"],
        data=data["data"],
        state=data["state"],
        interrupt_id=data["interruptId"],
        input=data["input"],
        answer_schema=data["answerSchema"],
        expires_at=None if expires is None else datetime.fromisoformat(expires),
    )
