"""A tool that runs a script hands on what the script asks, and goes on with the answer, as any tool does."""

from __future__ import annotations

from typing import Any

import orjson

from grundlag_bus import (
    AgentRun,
    AgentTools,
    ModelReply,
    Sandbox,
    ScriptedModel,
    ToolCall,
    ToolContext,
    ToolInterrupt,
    define_tool,
)
from tests.contract.sandbox.test_interrupting import BATCH
from tests.support.contract_registry import seen
from tests.support.hosts import Host


async def test_an_agent_s_run_asks_what_its_script_asks(host: Host) -> None:
    sandbox = Sandbox(host.tools)

    async def run_script(value: Any, context: ToolContext) -> Any:
        if context.resumption is None:
            return (await sandbox.run(value["source"], context=context)).value
        asked = ToolInterrupt("", state=context.resumption.state)
        return (await sandbox.resume(asked, context.resumption.answer, context=context)).value

    tool = define_tool(
        id="runScript", name="Run a script", input={"type": "object"}, output={"type": "array"}, execute=run_script
    )
    replies: list[ModelReply | str | Exception] = [
        ModelReply(calls=(ToolCall.of("runScript", {"source": BATCH}),)),
        "Done.",
    ]

    def run_of(data: Any = None) -> AgentRun:
        model, tools = ScriptedModel(list(replies)), AgentTools({"runScript": tool})
        return AgentRun(model, tools) if data is None else AgentRun.from_json(data, model=model, tools=tools)

    run = run_of()
    (question,) = (await run.send("Go")).pending
    assert question.message == "2 questions: Delete e1? Delete e2?"
    replies.pop(0)
    run = run_of(orjson.loads(orjson.dumps(run.to_json())))
    answers = {one["interruptId"]: {"approved": True} for one in question.data}
    result = await run.answer({question.interrupt_id: answers})
    assert (result.status, result.text) == ("completed", "Done.")
    assert (seen.runs["add"], seen.runs["ask"]) == (1, 2)
