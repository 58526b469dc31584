"""Every call ends: by its deadline, by its caller, or by what the action raises."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import structlog.testing

from grundlag_bus import ActionFailed, CallError, DeadlineExceededError, InternalError, ToolContext
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses

SOON = ToolContext(timeout=0.5)  # long enough to have begun by then, on a busy machine too

# --- deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["sleep", "stubborn", "sleepInThread"])
async def test_an_action_is_ended_by_its_deadline(host: Host, action: str) -> None:
    begun = time.monotonic()
    with pytest.raises(DeadlineExceededError) as raised:
        await host.execute(action, {"seconds": 30}, SOON)
    assert time.monotonic() - begun < 5
    assert raised.value.details == {"published": True}
    await eventually(lambda: seen.notes in (["cancelled"], ["swallowed"]))


async def test_the_host_serves_on_after_deadlines(host: Host) -> None:
    for action in ("sleep", "stubborn", "sleepInThread"):
        with pytest.raises(DeadlineExceededError):
            await host.execute(action, {"seconds": 30}, SOON)
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


@pytest.mark.parametrize("left", [0, -1, -(10**9)])
async def test_a_call_whose_deadline_has_passed_does_not_run(host: Host, left: float) -> None:
    with pytest.raises(DeadlineExceededError):
        await host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=left))
    await host.execute("echo")
    assert not seen.runs["add"]


async def test_a_deadline_touches_no_neighbour(host: Host) -> None:
    async def patient() -> Any:
        return await host.execute("hold", {"name": "patient"})

    neighbour = asyncio.create_task(patient())
    with pytest.raises(DeadlineExceededError):
        await host.execute("sleep", {"seconds": 30}, SOON)
    seen.gate("patient").set()
    await neighbour


async def test_no_deadline_is_too_far(host: Host) -> None:
    for far in (1e9, 1e300, float("inf")):
        assert await host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=far)) == {"sum": 3}
        assert (await host.execute("whoAmI", context=ToolContext(timeout=far)))["value"]["until"]


@on_buses
@pytest.mark.parametrize("action", ["sleep", "stubborn", "sleepInThread"])
async def test_an_action_is_ended_at_the_limit_of_its_lane(host: Host, action: str) -> None:
    await host.stop_workers()
    await host.add_worker(limits={"main": 0.2})
    with pytest.raises(DeadlineExceededError, match=r"ran for 0\.2 s, which is the limit of lane 'main'") as raised:
        await host.execute(action, {"seconds": 30})
    assert raised.value.details == {"published": True, "limit": 0.2}
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


# --- cancellation by the caller ---------------------------------------------------------------------------------------


async def test_cancelling_the_awaiting_coroutine_gives_the_call_up(host: Host) -> None:
    call = asyncio.create_task(host.execute("hold", {"name": "given up"}))
    await eventually(lambda: seen.runs["hold given up"])
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    if host.kind != "in-process":
        assert host.in_flight == 0
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


@on_buses
async def test_the_reply_of_a_call_that_was_given_up_is_counted_and_dropped(host: Host) -> None:
    call = asyncio.create_task(host.execute("hold", {"name": "given up"}))
    await eventually(lambda: seen.runs["hold given up"])
    call.cancel()
    await asyncio.wait({call})
    seen.gate("given up").set()
    await eventually(lambda: host.bus_caller.late_replies == 1)
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}


# --- what actions raise -----------------------------------------------------------------------------------------------


async def test_an_action_fails_with_a_code_of_its_own(host: Host) -> None:
    with pytest.raises(ActionFailed) as raised:
        await host.execute("raise", {"name": "ActionFailed"})
    error = raised.value
    assert (error.code, error.message, error.details, error.retryable) == (
        "sold_out",
        "There is none left.",
        {"left": 0},
        True,
    )


@pytest.mark.parametrize("action", ["raise", "raiseInThread"])
async def test_an_unexpected_exception_reaches_the_caller_by_reference_and_the_log_in_full(
    host: Host, action: str
) -> None:
    with structlog.testing.capture_logs() as logs, pytest.raises(InternalError) as raised:
        await host.execute(action, {"name": "Exception"})
    details = raised.value.details
    assert set(details) == {"type", "reference"}
    assert details["type"] == "ValueError"
    assert details["reference"] in raised.value.message
    assert "hunter2" not in repr((raised.value.message, details))
    (line,) = [line for line in logs if line.get("reference") == details["reference"]]
    assert line["log_level"] == "error"
    assert line["action"] == action
    error = line["exc_info"]
    assert str(error) == "the password is hunter2"
    assert error.__traceback__ is not None


@pytest.mark.parametrize(
    ("action", "kind", "told"),
    [
        ("raise", "SystemExit", "SystemExit"),
        ("raise", "BaseExceptionGroup", "BaseExceptionGroup"),
        ("raise", "CancelledError", "CancelledError"),
        ("raise", "GeneratorExit", "GeneratorExit"),
        ("raise", "own BaseException", "_OwnError"),
        ("raiseInThread", "SystemExit", "SystemExit"),
        ("raiseInThread", "StopIteration", "RuntimeError"),
    ],
)
async def test_whatever_an_action_raises_ends_its_call_alone(host: Host, action: str, kind: str, told: str) -> None:
    neighbour = asyncio.create_task(host.execute("hold", {"name": "neighbour"}))
    with structlog.testing.capture_logs() as logs, pytest.raises(InternalError) as raised:
        await host.execute(action, {"name": kind})
    assert raised.value.details["type"] == told
    assert any(line.get("reference") == raised.value.details["reference"] for line in logs)
    seen.gate("neighbour").set()
    await neighbour


async def test_a_service_that_fails_to_close_fails_the_call(host: Host) -> None:
    with structlog.testing.capture_logs(), pytest.raises(InternalError) as raised:
        await host.execute("failToClose")
    assert raised.value.details["type"] == "ConnectionError"


async def test_a_missing_service_fails_the_call_and_is_named_in_the_log(host: Host) -> None:
    with structlog.testing.capture_logs() as logs, pytest.raises(InternalError) as raised:
        await host.execute("missing")
    assert raised.value.details["type"] == "ServiceMissingError"
    (line,) = [line for line in logs if line.get("reference") == raised.value.details["reference"]]
    assert "No service Seen is registered (registered: Broken, Session)" in str(line["exc_info"])


async def test_every_failure_is_an_error_of_this_package_with_a_code(host: Host) -> None:
    for name in ("ActionFailed", "Exception", "SystemExit"):
        with structlog.testing.capture_logs(), pytest.raises(CallError) as raised:
            await host.execute("raise", {"name": name})
        assert raised.value.code in ("sold_out", "internal")
