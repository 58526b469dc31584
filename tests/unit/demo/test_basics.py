from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from grundlag_bus import ActionFailed, ActionInputValidationError, ItemStore, ToolContext, testing
from grundlag_bus.demo.basics import Addends, Pause, add, sleep

if TYPE_CHECKING:
    from grundlag_bus import Tool

Tools = dict[str, "Tool"]


async def test_add_gives_the_sum(tools: Tools) -> None:
    assert await tools["demoAdd"].execute({"a": 1, "b": 2}, ToolContext()) == {"sum": 3}
    assert (await add.execute(Addends(a=-1, b=1), testing.context())).sum == 0


@pytest.mark.parametrize("numbers", [{"a": 1}, {"a": 1, "b": "2"}, {"a": 1.5, "b": 1}, {"a": 1, "b": 1, "c": 1}, None])
async def test_add_takes_two_whole_numbers_and_nothing_else(tools: Tools, numbers: Any) -> None:
    with pytest.raises(ActionInputValidationError):
        await tools["demoAdd"].execute(numbers, ToolContext())


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "ä€𝄞", [], {"a": [{"b": None}], "": ""}])
async def test_echo_gives_back_any_value_as_it_was(tools: Tools, value: Any) -> None:
    assert await tools["demoEcho"].execute({"value": value}, ToolContext()) == {"value": value}


async def test_echo_tells_an_absent_value_from_null(tools: Tools) -> None:
    with pytest.raises(ActionInputValidationError):
        await tools["demoEcho"].execute({}, ToolContext())


async def test_sleep_waits_as_long_as_it_is_told() -> None:
    paused = await sleep.execute(Pause(seconds=0.01), testing.context())
    assert paused.slept >= 0.009  # clocks and timers round


@pytest.mark.parametrize("retryable", [True, False])
async def test_fail_fails_as_it_is_told(tools: Tools, retryable: bool) -> None:
    wanted = {"code": "out_of_stock", "message": "Nothing is left.", "retryable": retryable}
    with pytest.raises(ActionFailed) as caught:
        await tools["demoFail"].execute(wanted, ToolContext())
    assert (caught.value.code, caught.value.message, caught.value.retryable) == tuple(wanted.values())


async def test_countdown_emits_an_item_for_each_step(tools: Tools) -> None:
    items = ItemStore()
    counted = await tools["demoCountdown"].execute({"start": 3}, ToolContext(items=items))
    assert counted == {"steps": [3, 2, 1, 0]}
    assert [item.data for item in items.list("countdownStep")] == [{"left": left} for left in (3, 2, 1, 0)]
