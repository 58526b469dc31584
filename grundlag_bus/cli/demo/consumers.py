"""The demo's last steps: the same calendar worked on by a script and by an agent, which hold nothing but tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.agent import AgentRun, AgentTools, ScriptedModel
from grundlag_bus.demo.calendar_agent import SCRIPT, calendar_model
from grundlag_bus.errors import ToolInterrupt
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.tools import ItemStore, ToolContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from grundlag_bus.tools import Tool

    Ask = Callable[[str, Any, Any], Awaitable[Any]]
    """Answers a question: its message, its data, and the JSON Schema of the answer. Raises EOFError."""


async def by_script(tools: Mapping[str, Tool], ics: str, ask: Ask) -> dict[str, Any]:
    """Run the script on a calendar of its own, and return its value. Raises ScriptError, EOFError."""
    sandbox = Sandbox(tools)
    context = ToolContext(user_id="script", items=ItemStore())
    try:
        result = await sandbox.run(SCRIPT, inputs={"ics": ics}, context=context)
    except ToolInterrupt as interrupt:
        answers = {
            str(one.interrupt_id): await ask(one.message, one.data, one.answer_schema) for one in interrupt.pending
        }
        result = await sandbox.resume(interrupt, answers, context=context, by="ada")
    value: dict[str, Any] = result.value
    return value


async def by_agent(tools: Mapping[str, Tool], ics: str, ask: Ask) -> str:
    """Let a scripted model work on a calendar of its own, and return what it says at last. Raises EOFError."""
    run = AgentRun(ScriptedModel(calendar_model(ics)), AgentTools(tools), user_id="agent")
    result = await run.send("Import my calendar, plan a review, and delete what clashes.")
    while run.pending:
        answers = {one.interrupt_id: await ask(one.message, one.data, one.answer_schema) for one in run.pending}
        result = await run.answer(answers)
    return result.text
