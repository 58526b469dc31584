"""PydanticAIModel against a server that speaks as OpenAI's does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from grundlag_bus import ConfigurationError, PydanticAIModel, ToolContext, ToolInterrupt, define_tool
from grundlag_bus.adapters.pydantic_ai.messages import kept_of, to_messages
from grundlag_bus.agent import (
    AgentRun,
    AgentTools,
    ModelRequest,
    Prompt,
    Replied,
    RunResult,
    TextDelta,
    ToolCall,
    Usage,
)
from tests.support.agents import assert_whole
from tests.support.eventually import eventually
from tests.support.openai_server import Answer, OpenAIServer, calls, error, openai_server, text


async def add(given: Any, _: ToolContext) -> Any:
    return {"sum": given["a"] + given["b"]}


async def ask(_: Any, context: ToolContext) -> Any:
    if context.resumption is None:
        raise ToolInterrupt("Sure?")
    return context.resumption.answer


NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
TOOLS = AgentTools(
    [
        define_tool(
            id="add",
            name="Add",
            description="Adds two numbers.",
            input=NUMBERS,
            output={},
            execute=add,
            parallel_safe=True,
        ),
        define_tool(id="ask", name="Ask", input={"type": "object"}, output={}, execute=ask),
    ]
)


@asynccontextmanager
async def agent(*answers: Answer, **options: Any) -> AsyncIterator[tuple[AgentRun, OpenAIServer]]:
    with openai_server(*answers) as server:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0, timeout=10) as client:
            model = PydanticAIModel(OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client)))
            yield AgentRun(model, TOOLS, **options), server


async def test_text_comes_in_pieces_and_tokens_are_counted() -> None:
    async with agent(text("Good", " morning", ".")) as (run, server):
        going_on = run.send("Hello")
        deltas = [event.text async for event in going_on if isinstance(event, TextDelta)]
    assert deltas == ["Good", " morning", "."]
    assert (going_on.result.text, going_on.result.usage) == ("Good morning.", Usage(20, 3, 4))
    assert run.transcript.replies[0].model == "openai:fake"
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Hello"}]
    assert server.requests[0]["stream"] is True


async def test_tools_are_described_and_called_and_their_results_go_back() -> None:
    first = calls(("call_1", "add", ['{"a"', ': 1, "b": 2}']), ("call_2", "add", ['{"a": 3, "b": 4}']))
    async with agent(first, text("3 and 7."), instructions="Be brief.") as (run, server):
        assert (await run.send("1 + 2? 3 + 4?")).text == "3 and 7."
    described = {tool["function"]["name"]: tool["function"] for tool in server.requests[0]["tools"]}
    assert described["add"]["description"] == "Adds two numbers."
    assert described["add"]["parameters"]["required"] == ["a", "b"]
    system, prompt, reply, *results = server.requests[1]["messages"]
    assert (system["role"], system["content"]) in [("system", "Be brief."), ("developer", "Be brief.")]
    assert prompt["role"] == "user"
    assert [call["id"] for call in reply["tool_calls"]] == ["call_1", "call_2"]
    assert [(result["tool_call_id"], result["content"]) for result in results] == [
        ("call_1", '{"sum":3}'),
        ("call_2", '{"sum":7}'),
    ]
    assert_whole(run.transcript)


@pytest.mark.parametrize("arguments", ['{"a": 1, "b": ', "[1, 2]", '{"a": "one"}', "", "add them"])
async def test_malformed_arguments_are_told_to_the_model_which_may_do_better(arguments: str) -> None:
    better = calls(("call_2", "add", ['{"a": 1, "b": 2}']))
    async with agent(calls(("call_1", "add", [arguments])), better, text("3")) as (run, server):
        assert (await run.send("1 + 2?")).text == "3"
    first, second = (call.result.value() for call in run.transcript.calls if call.result is not None)
    assert (first.code, second.data) == ("input_invalid", {"sum": 3})
    *_, result = server.requests[1]["messages"]
    assert "input_invalid" in result["content"]


async def test_a_tool_that_a_model_made_up_is_told_to_it() -> None:
    async with agent(calls(("call_1", "multiply", ["{}"])), text("I cannot.")) as (run, server):
        assert (await run.send("1 * 2?")).text == "I cannot."
    assert "Unknown tool: multiply" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("answer", "code", "retryable", "retry_after"),
    [
        (error(429, "Slow down.", Retry_After="7"), "rate_limited", True, 7.0),
        (error(429, "Slow down."), "rate_limited", True, None),
        (error(500, "Oops."), "unavailable", True, None),
        (error(503, "Later.", Retry_After="2"), "unavailable", True, 2.0),
        (error(400, "Bad."), "refused", False, None),
        (error(401, "Who?"), "refused", False, None),
        (error(404, "What?"), "refused", False, None),
        (Answer(text("It").chunks[:1], broken=True), "unreachable", True, None),
        (Answer(), "reply_invalid", True, None),
        (
            Answer([text("It").chunks[0], {"error": {"message": "Slow", "code": "rate_limit_exceeded"}}]),
            "rate_limited",
            True,
            None,
        ),
    ],
)
async def test_a_failing_model_ends_the_run_with_what_to_do_and_it_can_be_resumed(
    answer: Answer, code: str, retryable: bool, retry_after: float | None
) -> None:
    first = calls(("call_1", "add", ['{"a": 1, "b": 2}']))
    async with agent(first, answer, text("3")) as (run, _):
        result = await run.send("1 + 2?")
        assert result.status == "failed"
        assert result.error is not None
        assert (result.error.code, result.error.retryable, result.error.retry_after) == (code, retryable, retry_after)
        assert_whole(run.transcript)
        assert (await run.resume()).text == "3"
        assert len(run.transcript.calls) == 1


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with openai_server() as server:
        pass
    async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        model = PydanticAIModel(OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client)))
        result = await AgentRun(model, TOOLS).send("Hello")
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("unreachable", True)


@pytest.mark.parametrize(("finish", "cut"), [("length", "length"), ("content_filter", "filtered")])
async def test_a_reply_that_is_not_whole_says_why(finish: str, cut: str) -> None:
    async with agent(text("It is", finish=finish)) as (run, _):
        result = await run.send("What is it?")
    assert (result.status, result.text, result.cut) == ("completed", "It is", cut)


def by_cancel(run: AgentRun, going_on: asyncio.Task[RunResult]) -> None:
    run.cancel()


def by_coroutine(run: AgentRun, going_on: asyncio.Task[RunResult]) -> None:
    going_on.cancel()


@pytest.mark.parametrize("how", [by_cancel, by_coroutine])
async def test_cancelling_closes_the_connection(how: Callable[[AgentRun, asyncio.Task[RunResult]], None]) -> None:
    async with agent(Answer(text("It").chunks[:1], waits=True)) as (run, server):

        async def go_on() -> RunResult:
            return await run.send("Hello")

        going_on = asyncio.create_task(go_on())
        await eventually(lambda: server.requests)
        how(run, going_on)
        await asyncio.wait({going_on})
        await eventually(server.gone.is_set)
        assert going_on.cancelled() or going_on.result().status == "cancelled"


async def test_a_run_that_asked_a_person_goes_on_from_its_text() -> None:
    async with agent(calls(("call_1", "ask", ["{}"]))) as (run, _):
        (pending,) = (await run.send("Do it")).pending
    with openai_server(text("Done.")) as server:
        async with AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            model = PydanticAIModel(OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client)))
            other = AgentRun.from_json(run.to_json(), model=model, tools=TOOLS)
            assert (await other.answer({pending.interrupt_id: True})).text == "Done."
    assert [message["role"] for message in server.requests[0]["messages"]] == ["user", "assistant", "tool"]


async def test_a_vendor_that_tells_no_reason_for_the_end_is_taken_at_its_word() -> None:
    async with agent(text("Hello.", finish=None)) as (run, _):
        assert (await run.send("Hello")).text == "Hello."
    run = AgentRun(PydanticAIModel(TestModel(call_tools=[], custom_output_text="Hello.")), TOOLS)
    assert (await run.send("Hello")).text == "Hello."


# --- without a server -------------------------------------------------------------------------------------------------


def test_what_a_vendor_signed_goes_back_as_it_was_under_the_transcripts_ids() -> None:
    thought = ThinkingPart("I think.", signature="sealed", provider_name="vendor")
    response = ModelResponse(
        [thought, TextPart("Well."), ToolCallPart("add", '{"a": 1}', "same")], provider_name="vendor"
    )
    replied = Replied("Well.", (ToolCall("same_2", "add", '{"a": 1}'),), kept_of(response))
    _, told, _ = to_messages(ModelRequest((Prompt("Go"), replied)))
    assert isinstance(told, ModelResponse)
    assert told.parts[0] == thought
    assert told.provider_name == "vendor"
    assert [part.tool_call_id for part in told.parts if isinstance(part, ToolCallPart)] == ["same_2"]


@pytest.mark.parametrize("kept", [None, {"another": 1}, {"pydantic-ai": [1]}, {"pydantic-ai": []}, "text"])
def test_what_another_model_kept_is_passed_over(kept: Any) -> None:
    replied = Replied("Well.", (ToolCall("a", "add", "{}"),), kept)
    _, told, _ = to_messages(ModelRequest((Prompt("Go"), replied)))
    assert [type(part) for part in told.parts] == [TextPart, ToolCallPart]


def test_a_plain_reply_keeps_nothing_twice() -> None:
    assert kept_of(ModelResponse([TextPart("Well."), ToolCallPart("add", "{}", "a")])) is None


@pytest.mark.parametrize("name", ["nonsense", "nobody:gpt-5"])
def test_a_model_that_it_does_not_know_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot make the model '{name}'"):
        PydanticAIModel(name)


def test_without_the_package_it_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['pydantic_ai'] = None\nimport grundlag_bus\n"
        "try:\n    grundlag_bus.PydanticAIModel\nexcept grundlag_bus.ConfigurationError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "PydanticAIModel needs pydantic-ai: pip install 'grundlag-bus[pydantic-ai]'."
