"""Models and runtimes of a user's own that break their word: one error says which, and what it gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grundlag_bus import ConfigurationError
from grundlag_bus.agent import (
    AgentRun,
    AgentTools,
    ModelReply,
    ReplyEnd,
    ScriptedModel,
    TextDelta,
    ToolCall,
    ToolDescription,
    ToolResult,
)

NO_TOOLS = AgentTools([])


class Model:
    """A model whose stream is given."""

    name = "mine"

    def __init__(self, stream: Callable[[Any], Any]) -> None:
        self.stream = stream


def yielding(*parts: Any) -> Callable[[Any], Any]:
    async def stream(_: Any) -> Any:
        for part in parts:
            yield part

    return stream


async def returns_a_reply(_: Any) -> Any:
    return ModelReply("Done.")


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (lambda _: None, r"stream\(\) of the model mine returned None: write it as `async def` with `yield`"),
        (returns_a_reply, r"mine returned a coroutine"),
        (yielding(None), r"mine yielded None: yield TextDelta"),
        (yielding("Hello", ReplyEnd()), r"mine yielded a str"),
        (yielding(TextDelta(5), ReplyEnd()), r"yielded a TextDelta whose text is a int"),  # type: ignore[arg-type]  # the mistake
        (yielding(ToolCall("1", "do", {}), ReplyEnd()), r"whose arguments is a dict: ToolCall\.of"),  # type: ignore[arg-type]  # the same
        (yielding(ReplyEnd(usage=None)), r"a ReplyEnd whose usage is None: give a Usage"),  # type: ignore[arg-type]  # the same
        (yielding(ReplyEnd(cut="stop")), r"The reply of the model mine cannot be kept: cut"),  # type: ignore[arg-type]  # the same
    ],
)
async def test_a_model_that_breaks_its_word_fails_the_run(stream: Callable[[Any], Any], told: str) -> None:
    run = AgentRun(Model(stream), NO_TOOLS)
    result = await run.send("Hello.")
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "reply_invalid"
    with pytest.raises(type(result.error), match=told):
        raise result.error
    run.to_json()


async def test_a_script_that_gives_no_reply_fails_the_run() -> None:
    result = await AgentRun(ScriptedModel(lambda _: None), NO_TOOLS).send("Hello.")  # type: ignore[arg-type, return-value]  # the mistake
    assert "the model scripted gave None: give a ModelReply" in str(result.error)


@pytest.mark.parametrize("model", [None, ScriptedModel, ModelReply("Done."), lambda _: "Done."])
def test_what_is_no_model_is_refused_at_once(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the model of a run"):
        AgentRun(model, NO_TOOLS)


class Runtime:
    """A runtime whose list and results are given."""

    def __init__(self, listed: Any, result: Any = None) -> None:
        self._listed = listed
        self._result = result

    def list(self) -> Any:
        return self._listed() if callable(self._listed) else self._listed

    async def execute(self, _: ToolCall, __: Any) -> Any:
        return self._result


class Blocking(Runtime):
    def execute(self, _: ToolCall, __: Any) -> Any:
        return ToolResult(True, "Done.")


async def listing() -> Any:
    return []


DO = ToolDescription(name="do", description="", input={})


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        (Runtime(None), r"Runtime\.list\(\) returned None: return a list of ToolDescription"),
        (Runtime([DO, {"name": "do"}]), r"Runtime\.list\(\) returned a dict at 1"),
        (Runtime(listing), r"Runtime\.list\(\) is a coroutine: write it as a plain `def`"),
        (Runtime([DO], {"ok": True}), r"Runtime\.execute\(\) returned a dict for do: return a ToolResult"),
        (Runtime([DO]), r"Runtime\.execute\(\) returned None for do"),
        (Blocking([DO]), r"Blocking\.execute\(\) returned a ToolResult and is no coroutine"),
    ],
)
async def test_a_runtime_that_breaks_its_word_is_raised_and_the_transcript_stays_whole(runtime: Any, told: str) -> None:
    run = AgentRun(ScriptedModel([ModelReply(calls=(ToolCall.of("do"),)), "Done."]), runtime)
    with pytest.raises(ConfigurationError, match=told):
        await run.send("Do it.")
    assert not run.is_running
    assert not run.transcript.open_calls
    AgentRun.from_json(run.to_json(), model=ScriptedModel([]), tools=NO_TOOLS)
