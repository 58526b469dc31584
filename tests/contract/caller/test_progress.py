"""Progress and early items: in order, as far as nothing is lost on the way, and nothing depends on them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
import structlog.testing

from grundlag_bus import DeadlineExceededError, ItemStore, Progress, ToolContext
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host


@pytest.mark.parametrize("action", ["work", "workInThread"])
async def test_progress_arrives_in_order_and_the_last_of_it_before_the_reply(host: Host, action: str) -> None:
    heard: list[Progress] = []
    items = ItemStore()
    await host.execute(action, {"length": 50}, ToolContext(on_progress=heard.append, items=items))
    done = [progress.done for progress in heard if progress.done is not None]
    assert all(one < other for one, other in pairwise(done))
    assert done[-1] == 50
    emitted = [item["data"]["number"] for progress in heard for item in progress.items]
    assert emitted == list(range(1, 51))
    assert [item.data["number"] for item in items] == emitted


async def test_progress_tells_the_whole(host: Host) -> None:
    heard: list[Progress] = []
    await host.execute("work", {"length": 1}, ToolContext(on_progress=heard.append))
    assert Progress(done=1, total=1, text="step 1") in heard


async def test_the_start_is_told_first(host: Host) -> None:
    heard: list[Progress] = []
    await host.execute("add", {"a": 1, "b": 2}, ToolContext(on_progress=heard.append))
    (only,) = heard
    assert only.started is not None


async def test_a_call_that_is_put_off_says_until_when(host: Host) -> None:
    heard: list[Progress] = []
    await host.execute("later", {"times": 1, "after": 0}, ToolContext(on_progress=heard.append))
    assert [progress.deferred_until is not None for progress in heard] == [False, True, False]
    assert [progress.started is not None for progress in heard] == [True, False, True]


async def test_early_items_are_there_before_the_call_ends(host: Host) -> None:
    heard: list[Progress] = []
    items = ItemStore()
    call = asyncio.create_task(
        host.execute("workByGate", {"name": "early"}, ToolContext(on_progress=heard.append, items=items))
    )
    await eventually(lambda: any(progress.text == "waiting" for progress in heard))
    assert [item.type for item in items] == ["early"]
    assert not call.done()
    seen.gate("early").set()
    await call
    assert [item.type for item in items] == ["early"]


async def test_who_does_not_listen_gets_the_items_with_the_reply(host: Host) -> None:
    items = ItemStore()
    await host.execute("work", {"length": 3}, ToolContext(items=items))
    assert [item.data["number"] for item in items] == [1, 2, 3]


async def test_a_listener_that_raises_is_named_in_the_log_and_ends_nothing(host: Host) -> None:
    def fail(_: Progress) -> None:
        raise LookupError("the screen is gone")

    with structlog.testing.capture_logs() as logs:
        assert await host.execute("work", {"length": 2}, ToolContext(on_progress=fail)) == {"length": 2}
    assert any(line["event"] == "progress_listener_failed" for line in logs)


async def test_an_action_that_makes_no_progress_is_ended(host: Host) -> None:
    with pytest.raises(DeadlineExceededError, match=r"reported no progress for 0\.3 s") as raised:
        await host.execute("dawdle", {"length": 0})
    assert raised.value.details == {"published": True, "idle": 0.3}


async def test_progress_extends_the_idle_timeout(host: Host) -> None:
    with pytest.raises(DeadlineExceededError):
        await host.execute("dawdle", {"length": 10})  # which takes longer than the idle time-out
    assert seen.notes == ["idle"]
