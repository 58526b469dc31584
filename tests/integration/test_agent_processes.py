"""A run that goes on in another process than it began in, over RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grundlag_bus import AgentRun, AgentTools, ScriptedModel
from tests.support.agent_process import agent_process, go_on
from tests.support.agents import assert_whole, result_of
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host


@pytest.fixture
async def host(amqp_url: str, namespace: str) -> AsyncIterator[Host]:
    seen.reset()
    async with open_host("rabbitmq", namespace, amqp_url) as opened:
        yield opened
        seen.reset()


async def test_a_person_answers_in_another_process_than_the_one_that_asked(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    both = [["note", {"name": "first"}], ["askBeside", {"id": "e1"}], ["askBeside", {"id": "e2"}]]
    asked = await go_on(host.address, host.namespace, file, replies=[both], prompt="Delete both")
    assert (asked["status"], list(asked["pending"].values())) == ("interrupted", ["Delete e1?", "Delete e2?"])
    first, second = asked["pending"]
    once = await go_on(host.address, host.namespace, file, replies=[], answers={second: {"approved": True}})
    assert (once["status"], list(once["pending"])) == ("interrupted", [first])
    ended = await go_on(host.address, host.namespace, file, replies=["Done."], answers={first: {"approved": False}})
    assert (ended["status"], ended["text"]) == ("completed", "Done.")
    assert seen.notes.count(("noted", "first")) == 1
    assert seen.runs["askBeside"] == 2
    run = AgentRun.from_json(json.loads(file.read_text()), model=ScriptedModel([]), tools=AgentTools(host.tools))
    assert [result_of(run, call).data["approved"] for call in "bc"] == [False, True]
    assert {result_of(run, call).data["by"] for call in "bc"} == {"ada"}
    assert_whole(run.transcript)


async def test_a_killed_process_leaves_a_run_that_goes_on_and_calls_nothing_again(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    three = [["note", {"name": "first"}], ["hold", {"name": "gate"}], ["note", {"name": "last"}]]
    async with agent_process(host.address, host.namespace, file, replies=[three], prompt="Go") as process:
        await eventually(lambda: seen.runs["hold gate"], within=30)
        process.kill()
        await process.wait()
    seen.gate("gate").set()
    model = ScriptedModel(["I shall look."])
    run = AgentRun.from_json(json.loads(file.read_text()), model=model, tools=AgentTools(host.tools))
    assert [result_of(run, call).code for call in "abc"] == [None, "outcome_unknown", "cancelled"]
    assert (await run.resume()).text == "I shall look."
    assert seen.notes == [("noted", "first")]
    assert seen.runs["hold gate"] == 1
    assert_whole(run.transcript)
