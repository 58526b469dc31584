"""What `script` takes to begin with, and what it refuses before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import ActionContext, ConfigurationError, Provider, ProviderRegistry, Sandbox, ToolInterrupt, connect
from grundlag_bus.cli.script.beginning import Fresh, Waiting, beginning

provider = Provider("ask", name="Ask")


@provider.action("word", name="Ask for a word", answer=str)
async def word(question: str, ctx: ActionContext[str]) -> str:
    if ctx.resumption is None:
        raise ToolInterrupt(question)
    return ctx.resumption.answer


async def interrupt() -> ToolInterrupt:
    async with connect(ProviderRegistry([provider])) as bus:
        with pytest.raises(ToolInterrupt) as asked:
            await Sandbox(await bus.to_tools()).run("print('one moment')\nawait askWord(input='Which?')")
    return asked.value


async def test_a_printed_state_is_the_interrupt_that_it_was_printed_of(tmp_path: Path) -> None:
    raised = await interrupt()
    assert raised.stdout == "one moment\n"
    (pending,) = raised.pending
    printed = tmp_path / "asked.json"
    for written in ({"status": "interrupted", "state": raised.state}, raised.state):
        printed.write_text(json.dumps(written))
        begun = beginning(None, None, state=str(printed), answers=[f'{pending.interrupt_id}="a = b"'])
        assert isinstance(begun, Waiting)
        assert begun.answers == {pending.interrupt_id: "a = b"}
        asked = begun.asked
        assert (asked.interrupt_id, asked.message, asked.data) == (raised.interrupt_id, "Which?", raised.data)
        assert asked.answer_schema == raised.answer_schema
        assert asked.pending[0].message == "Which?"


def test_a_file_is_a_script_that_has_not_begun(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("1\n")
    given = beginning(str(tmp_path / "script.py"), '{"a": 1}', state=None, answers=())
    assert given == Fresh("1\n", {"a": 1})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "There is no script"),
        ({"file": "script.py", "answers": ["1=2"]}, "add --state"),
        ({"file": "script.py", "state": "asked.json"}, "leave FILE and --inputs out"),
        ({"inputs": "{}", "state": "asked.json"}, "leave FILE and --inputs out"),
        ({"state": "asked.json", "answers": ["1"]}, "is no ID=JSON"),
        ({"state": "asked.json", "answers": ["1={"]}, "is no ID=JSON"),
        ({"state": "asked.json"}, "no state of a script"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    given: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("asked.json").write_text('{"status": "completed"}')
    with pytest.raises(ConfigurationError, match=told):
        beginning(**{"file": None, "inputs": None, "state": None, "answers": (), **given})
