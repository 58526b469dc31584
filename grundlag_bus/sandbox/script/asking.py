"""What a script's calls ask, as one interrupt to its host and back: its state, and the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from grundlag_bus.errors import (
    AnswerInvalidError,
    ConfigurationError,
    InterruptUnknownError,
    NotJsonError,
    RunStateError,
    ScriptReplayError,
    ToolInterrupt,
)
from grundlag_bus.sandbox.script.history import History
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.json_schema import JsonValidator
from grundlag_bus.tools import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grundlag_bus.sandbox.script.history import CallState

_VERSION = 1


def interrupt_of(
    pending: Sequence[ToolInterrupt], history: History, *, interrupt_id: str | None = None
) -> ToolInterrupt:
    """Make the interrupt of a script. Its data has each question, its answer schema is an object of answers by id.

    interrupt_id: of one that was raised before; a new one where it is not given.
    """
    functions = {state.interrupt.interrupt_id: state.function for state in history.calls.values() if state.interrupt}
    questions = [
        {
            "interruptId": one.interrupt_id,
            "function": functions.get(one.interrupt_id),
            "message": one.message,
            "data": one.data,
        }
        for one in pending
    ]
    interrupt_id = interrupt_id or uuid4().hex
    expiring = [one.expires_at for one in pending if one.expires_at is not None]
    return ToolInterrupt(
        pending[0].message
        if len(pending) == 1
        else f"{len(pending)} questions: {' '.join(o.message for o in pending)}",
        data=questions,
        state={"v": _VERSION, "interruptId": interrupt_id, "journal": history.entries()},
        interrupt_id=interrupt_id,
        answer_schema={
            "type": "object",
            "properties": {str(one.interrupt_id): one.answer_schema or {} for one in pending},
            "additionalProperties": False,
            "minProperties": 1,
        },
        expires_at=min(expiring, default=None),
        pending=pending,
    )


def interrupt_in(state: Any) -> ToolInterrupt:
    """Make the interrupt of a script anew of its `state`, with all that is pending. Raises ScriptReplayError."""
    bare = ToolInterrupt("", state=state)
    history = History(MemoryJournal(journal_in(bare)))
    pending = [call.interrupt for call in history.calls.values() if call.interrupt is not None]
    if not pending:
        raise ScriptReplayError("Nothing is pending in the state of the script: give the one of the newest interrupt.")
    return interrupt_of(pending, history, interrupt_id=name_of(bare))


def journal_in(interrupt: ToolInterrupt) -> list[dict[str, Any]]:
    """Return the entries of the journal in a script's interrupt. Raises ScriptReplayError."""
    entries = _state(interrupt).get("journal")
    if not isinstance(entries, list):
        raise ScriptReplayError("The state of the interrupt has no journal: give the interrupt as it was raised.")
    try:
        return plain(entries)  # type: ignore[no-any-return]  # a list stays one
    except NotJsonError as error:
        raise ScriptReplayError(f"The state of the interrupt is no plain JSON data: {error}.") from error


def name_of(interrupt: ToolInterrupt) -> str:
    """Return the id of a script's interrupt. Raises ScriptReplayError."""
    return str(_state(interrupt).get("interruptId"))


def checked_answers(history: History, answers: Mapping[str, Any]) -> dict[int, tuple[str, Any]]:
    """Return the answers as (interrupt id, answer) by call. Raises InterruptUnknownError, AnswerInvalidError."""
    pending = {str(state.interrupt.interrupt_id): state for state in history.calls.values() if state.interrupt}
    if unknown := [interrupt_id for interrupt_id in answers if interrupt_id not in pending]:
        raise InterruptUnknownError(unknown, pending)
    if not answers:
        raise RunStateError("There is no answer to go on with: give one for some of the interrupt's pending.")
    return {
        pending[interrupt_id].number: (interrupt_id, _checked(pending[interrupt_id], answer))
        for interrupt_id, answer in answers.items()
    }


def _checked(state: CallState, answer: Any) -> Any:
    try:
        data = plain(answer)
    except NotJsonError as error:
        raise AnswerInvalidError(state.function, [error.issue]) from error
    schema = None if state.interrupt is None else state.interrupt.answer_schema
    try:
        issues = [] if schema is None else JsonValidator(schema).issues(data)
    except ConfigurationError as error:
        raise ScriptReplayError(f"The answer schema in the journal of the script is none: {error}") from error
    if issues:
        raise AnswerInvalidError(state.function, issues)
    return data


def _state(interrupt: ToolInterrupt) -> dict[str, Any]:
    state = interrupt.state
    if not isinstance(state, dict) or state.get("v") != _VERSION:
        raise ScriptReplayError(
            "This is no interrupt of a script, or one of another version: give the one that run() or resume() raised."
        )
    return state
