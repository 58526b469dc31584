from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from grundlag_bus import (
    AnswerInvalidError,
    InterruptUnknownError,
    Sandbox,
    ScriptError,
    ScriptReplayError,
    ToolContext,
    ToolInterrupt,
)
from tests.support.script_tools import tools_of

SOURCE = "import asyncio\none = await give({'a': 1})\nawait asyncio.gather(ask(1), ask(2))"
REMOVED = object()


async def give(value: Any, _: ToolContext) -> Any:
    return value


async def ask(_: Any, context: ToolContext) -> Any:
    if context.resumption is None:
        raise ToolInterrupt("?", answer_schema={"type": "integer"})
    return context.resumption.answer


def sandbox() -> Sandbox:
    return Sandbox(tools_of(give=give, ask=ask))


async def waiting() -> ToolInterrupt:
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox().run(SOURCE, inputs={"n": 1})
    return raised.value


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in steps:
        yield (*at, step)
        yield from places(below, (*at, step))


def spoilt(state: Any, at: tuple[Any, ...], value: Any) -> Any:
    state = copy.deepcopy(state)
    inner = state
    for step in at[:-1]:
        inner = inner[step]
    if value is REMOVED:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return state


@pytest.mark.parametrize(
    "value",
    [REMOVED, None, -1, 1e300, float("nan"), 2**70, "x", "\ud800", [], {"a": 1}],
    ids=["removed", "null", "negative", "late", "nan", "huge", "text", "half", "list", "object"],
)
async def test_a_state_that_is_spoilt_anywhere_is_an_error_of_the_script_or_no_harm(value: Any) -> None:
    asked = await waiting()
    answers = dict.fromkeys([str(one.interrupt_id) for one in asked.pending], 3)
    for at in places(asked.state):
        spoiled = ToolInterrupt("", state=spoilt(asked.state, at, value))
        try:
            result = await sandbox().resume(spoiled, answers)
        except (ScriptError, InterruptUnknownError, AnswerInvalidError):
            continue
        assert result.value == [3, 3], at


async def test_the_place_in_an_entry_is_told() -> None:
    asked = await waiting()
    at = next(at for at in places(asked.state) if at[-1] == "answerSchema")
    with pytest.raises(ScriptReplayError, match=r"settled\.outcome\.interrupted\.interrupt\.answerSchema"):
        await sandbox().resume(ToolInterrupt("", state=spoilt(asked.state, at, [])), {"any": 1})
