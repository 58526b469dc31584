"""Agents as runs: their transcript is their journal, and what a model has replied is not asked of it again."""

from __future__ import annotations

import pytest

from grundlag_bus import ConfigurationError, ModelReply, ModelRequest, Replied, Returned, Runs, ScriptedModel, Store
from grundlag_bus.errors import ModelError
from tests.support.agents import calling
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.runs import asked, ended, entries, failure, question, value

pytestmark = on_buses


class Turns:
    """A model that replies by how far its conversation is, however often it is asked, and what it was asked last."""

    def __init__(self, *replies: ModelReply | str | Exception) -> None:
        self._replies = replies
        self.last: ModelRequest | None = None
        self.model = ScriptedModel(self._reply)

    def _reply(self, request: ModelRequest) -> ModelReply | str | Exception:
        self.last = request
        return self._replies[sum(isinstance(message, Replied) for message in request.messages)]

    def told(self) -> list[str]:
        """Return what the model was told of its calls."""
        assert self.last is not None
        return [message.text for message in self.last.messages if isinstance(message, Returned)]


async def test_an_agent_calls_what_its_model_wants_and_ends_with_its_text(host: Host, store: Store) -> None:
    turns = Turns(calling(("echo", {"value": 1}), ("add", {"a": 1, "b": 2})), calling(("echo", {"value": 2})), "Done.")
    async with Runs(store, host.bus, model=turns.model) as runs:
        run = await runs.start_agent("Do it.\nAll of it.", user_id="ada")
        assert (run.kind, run.name) == ("agent", "Do it.")
        assert await value(runs, run) == "Done."
        assert turns.told() == ['{"value":1}', '{"sum":3}', '{"value":2}']
        assert (seen.runs["echo"], seen.runs["add"]) == (2, 1)
        written = [entry["kind"] for entry in await entries(runs, run)]
    assert written[:2] == ["run.started", "prompted"]
    assert (written.count("replied"), written.count("called"), written.count("settled")) == (3, 3, 3)


async def test_an_agent_that_asks_is_parked_and_goes_on_with_the_answers(host: Host, store: Store) -> None:
    turns = Turns(calling(("askBeside", {"id": "a"}), ("askBeside", {"id": "b"}), ("askBeside", {"id": "c"})), "Done.")
    async with Runs(store, host.bus, model=turns.model) as runs:
        run = await runs.start_agent("Delete them.", user_id="ada")
        interrupts = await asked(runs, run)
        await eventually(lambda: runs.driven == 0)
        await runs.answer(interrupts["b"], {"approved": True}, by="ada")
        assert set(await asked(runs, run)) == {"a", "c"}
        await runs.reject(interrupts["a"], by="ada", reason="not that one")
        await runs.edit(interrupts["c"], {"id": "d"}, by="ada")
        await runs.answer(await question(runs, run, "d"), {"approved": False}, by="ada")
        assert await value(runs, run) == "Done."
    rejected, answered, edited = turns.told()
    assert '"code":"rejected"' in rejected
    assert "ada rejected the call: not that one" in rejected
    assert '"approved":true' in answered
    assert '"approved":false' in edited
    assert turns.last is not None
    (replied,) = [message for message in turns.last.messages if isinstance(message, Replied)]
    assert [call.arguments for call in replied.calls] == ['{"id":"a"}', '{"id":"b"}', '{"id":"d"}']
    assert seen.runs["askBeside"] == 2


async def test_an_agent_waits_for_a_long_call_without_being_held(host: Host, store: Store) -> None:
    turns = Turns(calling(("hold", {"name": "gate"})), "Done.")
    async with Runs(store, host.bus, model=turns.model) as runs:
        run = await runs.start_agent("Wait.")
        await eventually(lambda: seen.runs["hold gate"] == 1)
        await eventually(lambda: runs.driven == 0)
        seen.gate("gate").set()
        assert await value(runs, run) == "Done."
    assert seen.runs["hold gate"] == 1


async def test_an_agent_whose_model_failed_goes_on_with_another_try(host: Host, store: Store) -> None:
    failing = Turns(calling(("echo", {"value": 1})), ModelError("It is busy.", code="rate_limited", retryable=True))
    async with Runs(store, host.bus, model=failing.model) as runs:
        run = await runs.start_agent("Do it.")
        assert await failure(runs, run) == ("rate_limited", "It is busy.")
    turns = Turns(calling(("echo", {"value": 1})), "Done.")
    async with Runs(store, host.bus, model=turns.model) as runs:
        assert await value(runs, await runs.retry(run.run_id)) == "Done."
    assert len(turns.model.requests) == 1
    assert seen.runs["echo"] == 1


async def test_a_cancelled_agent_gives_each_of_its_calls_an_outcome(host: Host, store: Store) -> None:
    turns = Turns(calling(("hold", {"name": "gate"}), ("echo", {"value": 1})), "Done.")
    async with Runs(store, host.bus, model=turns.model) as runs:
        run = await runs.start_agent("Wait.")
        await eventually(lambda: seen.runs["hold gate"] == 1)
        await runs.cancel(run.run_id)
        assert (await ended(runs, run)).status == "cancelled"
        written = await entries(runs, run)
    codes = {entry["call"]: entry["outcome"]["code"] for entry in written if entry["kind"] == "settled"}
    assert codes == {0: "cancelled", 1: "cancelled"}
    assert seen.runs["echo"] == 0


async def test_an_agent_is_left_to_hosts_with_a_model(host: Host, store: Store) -> None:
    turns = Turns("Done.")
    async with Runs(store, host.bus) as without:
        with pytest.raises(ConfigurationError, match="no tool 'contractNothing'"):
            await without.start_agent("Hello", tools=["contractNothing"])
        run = await without.start_agent("Hello")
        assert await without.recover() == 0
        async with Runs(store, host.bus, model=turns.model) as runs:
            assert await value(runs, run) == "Done."


async def test_an_agent_that_comes_to_no_end_is_ended(host: Host, store: Store) -> None:
    turns = Turns(*[calling(("echo", {"value": number})) for number in range(3)])
    async with Runs(store, host.bus, model=turns.model) as runs:
        run = await runs.start_agent("Go on.", max_turns=2)
        assert (await failure(runs, run))[0] == "max_turns"
