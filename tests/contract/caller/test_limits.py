"""Limits: what is no JSON, too deep or too large is refused by who would send it, with its place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grundlag_bus import (
    ActionInputValidationError,
    ActionOutputValidationError,
    AnswerInvalidError,
    CallError,
    ItemStore,
    NotJsonError,
    PayloadTooLargeError,
    ToolContext,
)
from grundlag_bus.schema.codec import MAX_BYTES, MAX_DEPTH, encoded_size
from tests.support.contract_registry import seen
from tests.support.hazards import HAZARDS, hazard, nested
from tests.support.hosts import BEHIND_HTTP, Host

REFUSED = [(name, code) for name, (_, code) in HAZARDS.items()]
WRITTEN_BY_PYDANTIC = ("a set", "bytes", "a number as key", "an object")
"""What becomes of these in a result is said by the type of the output."""

# --- no JSON ----------------------------------------------------------------------------------------------------------


async def test_input_that_is_no_json_is_refused_with_its_place(host: Host) -> None:
    for what, code in REFUSED:
        with pytest.raises(ActionInputValidationError) as raised:
            await host.execute("echo", {"value": {"deep": hazard(what)}})
        (issue,) = raised.value.issues
        assert (what, issue.path[:2], issue.code) == (what, ("value", "deep"), code)
    assert not seen.runs


@pytest.mark.parametrize("where", ["result", "data", "state", "item", "details"])
async def test_what_an_action_says_and_is_no_json_is_refused_with_its_place(host: Host, where: str) -> None:
    for what, code in REFUSED:
        if where == "result" and what in WRITTEN_BY_PYDANTIC:
            continue
        with pytest.raises(ActionOutputValidationError) as raised:
            await host.execute("spoil", {"where": where, "what": what})
        assert raised.value.action_id == "spoil"
        assert [(what, "deep" in issue.path, issue.code) for issue in raised.value.issues] == [(what, True, code)]


async def test_an_answer_that_is_no_json_is_refused_and_the_interrupt_stays_pending(host: Host) -> None:
    interrupt = await host.interrupt("ask", {"id": "e1"})
    for what, code in REFUSED:
        with pytest.raises(AnswerInvalidError) as raised:
            await host.tool("ask").resume(interrupt, {"approved": True, "note": hazard(what)})
        assert [(what, issue.path[0], issue.code) for issue in raised.value.issues] == [(what, "note", code)]
    assert not seen.runs
    assert (await host.tool("ask").resume(interrupt, {"approved": True}))["approved"]


async def test_an_item_that_is_no_json_is_refused_where_it_is_emitted(host: Host) -> None:
    items = ItemStore()
    for what, code in REFUSED:
        with pytest.raises(NotJsonError) as raised:
            items.emit("note", hazard(what))
        assert raised.value.issue.code == code, what
    assert (await host.execute("recall", context=ToolContext(items=items)))["data"] == []


async def test_an_interrupts_text_that_is_no_unicode_is_refused(host: Host) -> None:
    with pytest.raises(ActionOutputValidationError) as raised:
        await host.execute("spoil", {"where": "message", "what": "a lone surrogate"})
    assert raised.value.issues[0].code == "not_unicode"


@pytest.mark.parametrize("user_id", ["ada", "🐟 שלום\0"])
async def test_a_user_id_is_any_unicode(host: Host, user_id: str) -> None:
    told = (await host.bus.call("contractWhoAmI", {}, ToolContext(user_id=user_id))).response.to_json()
    if host.kind in BEHIND_HTTP and not user_id.isprintable():  # there it comes from strangers, and stands in logs
        assert told["code"] == "unauthenticated"
    else:
        assert told["result"]["value"]["user"] == user_id


async def test_a_context_that_is_no_unicode_is_refused_before_anything_is_sent(host: Host) -> None:
    with pytest.raises(NotJsonError):
        await host.execute("whoAmI", context=ToolContext(user_id="\ud800"))
    interrupt = await host.interrupt("ask", {"id": "e1"})
    with pytest.raises(NotJsonError):
        await host.tool("ask").resume(interrupt, {"approved": True}, by="\ud800")
    assert not seen.runs


# --- what passes ------------------------------------------------------------------------------------------------------

TEXTS = ["", "🐟👩‍👩‍👧", "שלום עולם", "a\0b", "\u2028\u2029\ufeff", "e\u0301", "\\u0000 \" ' / \x7f", "\U0010ffff"]
NUMBERS = [0, -(2**63), 2**63 - 1, 2**53 + 1, 0.1, -0.0, 5e-324, 1.7976931348623157e308, True, None]


@pytest.mark.parametrize("value", [TEXTS, {text: text for text in TEXTS}, NUMBERS, nested(MAX_DEPTH - 2)])
async def test_what_is_json_crosses_unchanged_everywhere(host: Host, value: Any) -> None:
    def same(found: Any) -> bool:
        return repr(found) == repr(value)  # 1, 1.0 and True are equal, and so are 0.0 and -0.0

    assert same((await host.execute("echo", {"value": value}))["value"])
    interrupt = await host.interrupt("keep", {"value": value})
    assert same(interrupt.data)
    state, note = (await host.tool("keep").resume(interrupt, {"approved": True, "note": value}))["value"]
    assert same(state)
    assert same(note)
    items = ItemStore()
    items.emit("note", value)
    (recalled,) = (await host.execute("recall", context=ToolContext(items=items)))["data"]
    assert same(recalled)


async def test_128_levels_pass_and_129_do_not(host: Host) -> None:
    deepest = nested(MAX_DEPTH - 1)  # within the object that is the input
    assert await host.execute("echo", {"value": deepest}) == {"value": deepest}
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("echo", {"value": [deepest]})
    assert [issue.code for issue in raised.value.issues] == ["too_deep"]


# --- sizes ------------------------------------------------------------------------------------------------------------


async def test_the_largest_request_passes_and_one_byte_more_does_not(host: Host) -> None:
    room = MAX_BYTES - encoded_size({"input": {"a": 1, "b": 2, "c": ""}})
    assert await host.execute("add", {"a": 1, "b": 2, "c": "x" * room}) == {"sum": 3}
    with pytest.raises(PayloadTooLargeError) as raised:
        await host.execute("add", {"a": 1, "b": 2, "c": "x" * (room + 1)})
    assert raised.value.details == {"limit": MAX_BYTES, "size": MAX_BYTES + 1}
    assert seen.runs["add"] == 1


async def test_the_items_count_as_part_of_the_request(host: Host) -> None:
    items = ItemStore()
    items.emit("note", "x" * (MAX_BYTES - 50))
    with pytest.raises(PayloadTooLargeError):
        await host.execute("add", {"a": 1, "b": 2}, ToolContext(items=items))
    assert not seen.runs


async def test_the_largest_response_passes_and_one_byte_more_does_not(host: Host) -> None:
    room = MAX_BYTES - encoded_size({"status": "completed", "result": "", "items": []})
    assert len(await host.execute("produce", {"length": room})) == room
    with pytest.raises(PayloadTooLargeError) as raised:
        await host.execute("produce", {"length": room + 1})
    assert raised.value.details == {"limit": MAX_BYTES, "size": MAX_BYTES + 1}


async def test_state_of_64_kib_passes_and_more_does_not(host: Host) -> None:
    largest = "x" * (64 * 1024 - 2)
    interrupt = await host.interrupt("keep", {"value": largest})
    assert (await host.tool("keep").resume(interrupt, {"approved": True}))["value"] == [largest, None]
    with pytest.raises(ActionOutputValidationError) as raised:
        await host.execute("keep", {"value": largest + "x"})
    assert [(issue.path[-1], issue.code) for issue in raised.value.issues] == [("state", "too_large")]


async def test_large_calls_side_by_side_all_pass(host: Host) -> None:
    text = "x" * (MAX_BYTES // 2)
    results = await asyncio.gather(*(host.execute("echo", {"value": [n, text]}) for n in range(8)))
    assert [result["value"][0] for result in results] == list(range(8))


async def test_a_refused_call_leaves_the_host_as_it_was(host: Host) -> None:
    for value in (hazard("NaN"), "x" * MAX_BYTES):
        with pytest.raises(CallError):
            await host.execute("echo", {"value": value})
    assert await host.execute("add", {"a": 1, "b": 2}) == {"sum": 3}
