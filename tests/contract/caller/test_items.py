"""Items: what the conversation holds goes in, what the action emits comes back, on every outcome."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from grundlag_bus import ActionFailed, InternalError, ItemStore, ToolContext, ToolInterrupt
from tests.support.contract_registry import seen
from tests.support.hosts import Host


def held(items: ItemStore) -> list[tuple[str, Any]]:
    return [(item.type, item.data) for item in items]


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("completed", nullcontext()),
        ("interrupted", pytest.raises(ToolInterrupt)),
        ("failed", pytest.raises(ActionFailed)),
        ("raised", pytest.raises(InternalError)),
    ],
)
async def test_emitted_items_come_back_in_order_on_every_outcome(
    host: Host, how: str, end: AbstractContextManager[Any]
) -> None:
    items = ItemStore()
    items.emit("note", {"number": 0})
    with end:
        await host.execute("remember", {"how": how}, ToolContext(items=items))
    assert held(items) == [("note", {"number": 0}), ("note", {"number": 1}), ("place", {"number": 2})]


async def test_emitted_items_keep_their_ids_and_times(host: Host) -> None:
    items = ItemStore()
    await host.execute("remember", {"how": "completed"}, ToolContext(items=items))
    first, second = items
    assert first.id != second.id
    assert first.created_at <= second.created_at
    reply = await host.bus.call("contractRemember", {"how": "completed"})
    assert set(reply.response.items[0]) == {"id", "type", "data", "createdAt"}


async def test_the_action_sees_the_callers_items_in_order(host: Host) -> None:
    items = ItemStore()
    for number, kind in enumerate(("note", "place", "note")):
        items.emit(kind, number)
    told = await host.execute("recall", context=ToolContext(items=items))
    assert told == {"types": ["note", "place", "note"], "data": [0, 1, 2]}
    assert len(items) == 3


async def test_the_action_sees_only_the_types_that_it_reads(host: Host) -> None:
    items = ItemStore()
    for number, kind in enumerate(("note", "place", "note")):
        items.emit(kind, number)
    told = await host.execute("recallNotes", context=ToolContext(items=items))
    assert told == {"types": ["note", "note"], "data": [0, 2]}


async def test_calls_without_items_see_none_and_lose_what_is_emitted(host: Host) -> None:
    assert (await host.execute("recall"))["types"] == []
    await host.execute("remember", {"how": "completed"})


async def test_a_resumption_brings_its_own_items(host: Host) -> None:
    items = ItemStore()
    context = ToolContext(items=items)
    interrupt = await host.interrupt("remember", {"how": "interrupted"}, context)
    with pytest.raises(ToolInterrupt):
        await host.tool("remember").resume(interrupt, {"approved": True}, context)
    assert [number["number"] for _, number in held(items)] == [1, 2, 1, 2]
    assert not seen.notes
