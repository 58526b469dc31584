"""Calling: the result, the validation on both sides, and what nobody offers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog.testing

from grundlag_bus import (
    ActionInputValidationError,
    ActionOutputValidationError,
    ActionUnknownError,
    DeadlineExceededError,
    Manifest,
    ProviderUnavailableError,
    ToolContext,
)
from tests.support.contract_models import Add
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses


def pinned(manifest: Manifest, action_id: str, *, provider_id: str = "contract", **changes: Any) -> Manifest:
    """Keep one action of a manifest, changed, as a caller that read it long ago may have it."""
    (provider,) = manifest.providers
    action = next(action for action in provider.actions if action.id == action_id)
    action = action.model_copy(update={"function_name": "pinned", **changes})
    return Manifest(providers=(provider.model_copy(update={"id": provider_id, "actions": (action,)}),))


async def test_a_call_returns_plain_json_data(host: Host) -> None:
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


async def test_a_call_takes_a_value_of_the_input_model(host: Host) -> None:
    assert await host.execute("add", Add(a=1, b=2)) == {"sum": 3}


async def test_a_call_by_function_name_returns_the_reply(host: Host) -> None:
    reply = await host.bus.call("contractAdd", {"a": 1, "b": 2})
    assert reply.response.to_json() == {"status": "completed", "result": {"sum": 3}, "items": []}


async def test_the_action_knows_who_calls_and_until_when(host: Host) -> None:
    told = (await host.execute("whoAmI", context=ToolContext(user_id="ada")))["value"]
    assert (told["user"], told["attempt"], len(told["call"])) == ("ada", 1, 32)
    assert told["until"].endswith("Z")


async def test_what_the_caller_sent_is_not_changed_by_the_action(host: Host) -> None:
    sent: dict[str, Any] = {"value": {"list": [1]}}
    result = await host.execute("echo", sent)
    result["value"]["list"].append(2)
    assert sent == {"value": {"list": [1]}}


async def test_a_thousand_calls_at_once_each_get_their_own_result(host: Host) -> None:
    results = await asyncio.gather(*(host.execute("add", {"a": n, "b": 1}) for n in range(1000)))
    assert [result["sum"] for result in results] == list(range(1, 1001))


# --- validation -------------------------------------------------------------------------------------------------------


async def test_bad_input_is_refused_with_its_issues_and_runs_nothing(host: Host) -> None:
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("add", {"a": "one", "b": 2})
    assert raised.value.action_id == "add"
    assert [issue.path for issue in raised.value.issues] == [("a",)]
    assert not seen.runs


async def test_bad_input_that_the_caller_cannot_see_is_refused_where_the_action_is(host: Host) -> None:
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("even", {"n": 3})
    assert raised.value.action_id == "even"
    ((path, message),) = [(issue.path, issue.message) for issue in raised.value.issues]
    assert path == ("n",)
    assert "must be even" in message
    assert not seen.runs


async def test_the_verdict_on_the_input_is_that_of_where_the_action_is(host: Host) -> None:
    lax = await host.tools_of(pinned(await host.bus.manifest(), "add", input={}))
    with pytest.raises(ActionInputValidationError) as raised:
        await lax["pinned"].execute({"a": "one", "b": 2})
    assert raised.value.action_id == "add"
    assert [issue.path for issue in raised.value.issues] == [("a",)]
    assert not seen.runs


@pytest.mark.parametrize("n", [1, 2])
async def test_a_defect_of_a_models_own_validator_is_the_actions_failure(host: Host, n: int) -> None:
    with structlog.testing.capture_logs() as logs:
        told = (await host.bus.call("contractFragile", {"n": n})).response.to_json()
    assert (told["status"], told["code"]) == ("failed", "internal")
    assert [line["reference"] for line in logs] == [told["details"]["reference"]]
    assert not seen.runs


async def test_bad_output_is_refused_where_the_action_is(host: Host) -> None:
    with pytest.raises(ActionOutputValidationError) as raised:
        await host.execute("wrong")
    assert raised.value.action_id == "wrong"
    assert [issue.path for issue in raised.value.issues] == [("sum",)]
    assert seen.runs["wrong"] == 1


async def test_output_that_does_not_fit_what_the_caller_was_promised_is_refused_by_the_caller(host: Host) -> None:
    promise = {"type": "object", "properties": {"sum": {"type": "string"}}}
    strict = await host.tools_of(pinned(await host.bus.manifest(), "add", output=promise))
    with pytest.raises(ActionOutputValidationError) as raised:
        await strict["pinned"].execute({"a": 1, "b": 2})
    assert raised.value.action_id == "add"
    assert [issue.path for issue in raised.value.issues] == [("sum",)]


# --- what nobody offers -----------------------------------------------------------------------------------------------


async def test_a_function_that_nobody_announced_is_unknown(host: Host) -> None:
    told = (await host.bus.call("contractNothing", {})).response.to_json()
    assert (told["status"], told["code"]) == ("failed", "action_unknown")


async def test_an_action_that_its_provider_lacks_is_unknown(host: Host) -> None:
    stale = await host.tools_of(pinned(await host.bus.manifest(), "add", id="subtract"))
    with pytest.raises(ActionUnknownError):
        await stale["pinned"].execute({"a": 1, "b": 2})


@on_buses
async def test_a_provider_that_was_never_there_is_unavailable_at_once(host: Host) -> None:
    stale = await host.tools_of(pinned(await host.bus.manifest(), "add", provider_id="ghost"))
    async with asyncio.timeout(5):
        with pytest.raises(ProviderUnavailableError) as raised:
            await stale["pinned"].execute({"a": 1, "b": 2})
    assert raised.value.retryable


@on_buses
async def test_a_call_waits_for_a_worker_of_an_announced_provider(host: Host) -> None:
    await host.stop_workers()
    tools = await host.bus.to_tools()
    call = asyncio.create_task(tools["contractAdd"].execute({"a": 1, "b": 2}))
    await asyncio.wait({call}, timeout=0.05)
    assert not call.done()
    await host.add_worker()
    assert await call == {"sum": 3}


@on_buses
async def test_a_call_that_no_worker_takes_ends_at_its_deadline_and_never_runs(host: Host) -> None:
    await host.stop_workers()
    with pytest.raises(DeadlineExceededError) as raised:
        await host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=1.0))
    assert raised.value.details == {"published": True}
    await host.add_worker(concurrency=1)
    await host.execute("echo")  # it waited behind the expired call
    assert not seen.runs["add"]


@on_buses
async def test_two_workers_share_the_calls(host: Host) -> None:
    second = await host.add_worker()
    calls = [asyncio.create_task(host.execute("hold", {"name": "shared"})) for _ in range(20)]
    first = host.workers[0].worker
    await eventually(lambda: first.in_flight + second.worker.in_flight == 20)
    assert first.in_flight
    assert second.worker.in_flight
    seen.gate("shared").set()
    assert len({result["name"] for result in await asyncio.gather(*calls)}) == 20
