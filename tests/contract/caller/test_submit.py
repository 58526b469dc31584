"""Calls that are sent and not waited for, at once or later."""

from __future__ import annotations

import asyncio
import gc
import time
from datetime import UTC, datetime

import pytest

from grundlag_bus import (
    ActionInputValidationError,
    ActionUnknownError,
    Completed,
    ConfigurationError,
    Failed,
    ItemStore,
    PayloadTooLargeError,
    Response,
    ToolContext,
    TransportClosedError,
)
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.schema.progress import Progress
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import BEHIND_HTTP, Host, on_buses


def starts() -> dict[str, float]:
    return dict(seen.notes)


def code_of(response: Response) -> str:
    assert isinstance(response, Failed)
    return response.code


async def test_a_submitted_call_runs_and_its_reply_can_be_had_more_than_once(host: Host) -> None:
    submission = await host.bus.submit("contractHold", {"name": "a"})
    await eventually(lambda: seen.runs["hold a"])
    assert not submission.done
    seen.gate("a").set()
    reply = await submission.reply()
    assert submission.done
    if host.kind not in BEHIND_HTTP:  # there the id is made of the user too, whom the host knows
        assert reply.call_id == submission.call_id
    assert reply.response == Completed({"name": reply.call_id})
    assert await submission.reply() is reply


async def test_giving_up_the_wait_for_a_reply_does_not_give_up_the_call(host: Host) -> None:
    submission = await host.bus.submit("contractHold", {"name": "a"})
    waiting = asyncio.create_task(submission.reply())
    await eventually(lambda: seen.runs["hold a"])
    waiting.cancel()
    await asyncio.wait({waiting})
    seen.gate("a").set()
    assert isinstance((await submission.reply()).response, Completed)


async def test_a_submitted_call_that_fails_says_so_in_its_reply_alone(host: Host) -> None:
    submission = await host.bus.submit("contractRaise", {"name": "ActionFailed"})
    assert code_of((await submission.reply()).response) == "sold_out"


async def test_the_items_of_a_submitted_call_come_with_its_reply(host: Host) -> None:
    items = ItemStore()
    submission = await host.bus.submit("contractRemember", {"how": "completed"}, ToolContext(items=items))
    await submission.reply()
    await submission.reply()
    assert [item.type for item in items] == ["note", "place"]


async def test_delayed_calls_start_no_earlier_and_in_the_order_in_which_they_are_due(host: Host) -> None:
    sent: dict[str, float] = {}
    submissions = []
    for seconds in (3, 1, 2):
        sent[str(seconds)] = time.time()
        submissions.append(await host.bus.submit("contractStamp", {"name": str(seconds)}, delay=seconds))
    assert not starts()
    for submission in submissions:
        assert isinstance((await submission.reply()).response, Completed)
    assert list(starts()) == ["1", "2", "3"]
    for name, started in starts().items():
        assert started - sent[name] >= int(name) - 0.01


async def test_a_part_of_a_second_is_a_second(host: Host) -> None:
    sent = time.time()
    submission = await host.bus.submit("contractStamp", {"name": "x"}, delay=0.2)
    await submission.reply()
    assert starts()["x"] - sent >= 1 - 0.01


async def test_the_deadline_of_a_delayed_call_counts_from_the_end_of_its_delay(host: Host) -> None:
    sent = time.time()
    submission = await host.bus.submit("contractWhoAmI", {}, ToolContext(timeout=60), delay=1)
    response = (await submission.reply()).response
    assert isinstance(response, Completed)
    until = datetime.fromisoformat(response.result["value"]["until"])
    assert 61 <= until.astimezone(UTC).timestamp() - sent < 90


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 2**20, 13 * 24 * 3600])
async def test_a_delay_that_cannot_be_is_refused(host: Host, delay: float) -> None:
    with pytest.raises(ConfigurationError, match="delayed"):
        await host.bus.submit("contractStamp", {"name": "x"}, delay=delay)
    assert not starts()


@pytest.mark.parametrize("delay", [0, 1])
async def test_what_cannot_be_sent_is_raised(host: Host, delay: float) -> None:
    with pytest.raises(ActionInputValidationError):
        await host.bus.submit("contractAdd", {"a": "one"}, delay=delay)
    with pytest.raises(ActionUnknownError):
        await host.bus.submit("contractNothing", {}, delay=delay)
    assert not seen.runs


@on_buses
async def test_what_is_too_large_is_raised(host: Host) -> None:
    with pytest.raises(PayloadTooLargeError):
        await host.bus.submit("contractEcho", {"value": "x" * MAX_BYTES})


async def test_a_bus_that_is_closed_takes_nothing(host: Host) -> None:
    other = await host.another_bus()
    await other.bus.manifest()
    await other.bus.__aexit__(None, None, None)
    with pytest.raises(TransportClosedError):
        await other.bus.submit("contractAdd", {"a": 1, "b": 2})


async def test_the_close_of_the_bus_ends_the_wait_for_what_was_submitted(host: Host) -> None:
    other = await host.another_bus()
    running = await other.bus.submit("contractHold", {"name": "a"})
    delayed = await other.bus.submit("contractStamp", {"name": "x"}, delay=60)
    await eventually(lambda: seen.runs["hold a"])
    waiting = asyncio.create_task(running.reply())
    await asyncio.sleep(0)
    await other.bus.__aexit__(None, None, None)
    assert code_of((await waiting).response) == "outcome_unknown"
    never_ran = "cancelled" if host.kind in ("in-process", *BEHIND_HTTP) else "outcome_unknown"
    assert code_of((await delayed.reply()).response) == never_ran
    seen.gate("a").set()


@on_buses
async def test_a_delayed_call_is_started_also_after_its_caller_closed_the_bus(host: Host) -> None:
    other = await host.another_bus()
    await other.bus.submit("contractStamp", {"name": "x"}, delay=1)
    await other.bus.__aexit__(None, None, None)
    await eventually(starts)


@on_buses
async def test_a_submission_that_nobody_keeps_is_forgotten_and_its_call_runs(host: Host) -> None:
    late = host.bus_caller.late_replies
    for number in range(20):
        await host.bus.submit("contractStamp", {"name": str(number)}, delay=1)
    gc.collect()
    await eventually(lambda: host.bus_caller.in_flight == 0)
    await eventually(lambda: len(starts()) == 20)
    await host.execute("add", {"a": 1, "b": 2})
    assert host.bus_caller.late_replies == late


async def test_a_failure_that_nobody_asks_for_makes_no_noise(host: Host) -> None:
    await host.bus.submit("contractRaise", {"name": "Exception"})
    submission = await host.bus.submit("contractAdd", {"a": 1, "b": 2})
    await submission.reply()
    gc.collect()


# --- cancelling -------------------------------------------------------------------------------------------------------


async def test_a_running_submission_is_cancelled(host: Host) -> None:
    submission = await host.bus.submit("contractSleep", {"seconds": 60})
    await eventually(lambda: seen.runs["sleep"])
    submission.cancel()
    submission.cancel()
    assert code_of((await submission.reply()).response) == "cancelled"
    assert seen.notes == ["cancelled"]


async def test_a_delayed_submission_that_was_cancelled_does_not_start(host: Host) -> None:
    submission = await host.bus.submit("contractStamp", {"name": "x"}, delay=2)
    submission.cancel()
    assert code_of((await submission.reply()).response) == "cancelled"
    assert not starts()


async def test_the_signal_of_the_context_cancels_a_submission(host: Host) -> None:
    signal = asyncio.Event()
    submission = await host.bus.submit("contractSleep", {"seconds": 60}, ToolContext(signal=signal))
    await eventually(lambda: seen.runs["sleep"])
    signal.set()
    assert code_of((await submission.reply()).response) == "cancelled"


async def test_a_submission_tells_of_its_progress(host: Host) -> None:
    heard: list[Progress] = []
    submission = await host.bus.submit("contractAdd", {"a": 1, "b": 2}, ToolContext(on_progress=heard.append))
    await submission.reply()
    assert [progress.started is not None for progress in heard] == [True]
