from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from grundlag_bus import Item, ItemStore, NotJsonError, RunStateError, ToolInterrupt, ToolItems, TranscriptError
from grundlag_bus.agent import ModelReply, Replied, Returned, ToolCall, ToolResult, Transcript, Usage
from grundlag_bus.agent.records import AnswerRecord, CallRecord
from tests.support.agents import assert_whole
from tests.support.hazards import HAZARDS, hazard, nested


class Colour(Enum):
    RED = "red"


class Place(BaseModel):
    name: str


@dataclass
class Point:
    x: int


BECOMES_JSON: list[tuple[Any, Any]] = [
    (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "2026-03-29T01:30:00Z"),
    (date(2026, 3, 29), "2026-03-29"),
    (Colour.RED, "red"),
    (Place(name="x"), {"name": "x"}),
    (Point(1), {"x": 1}),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ((1, 2), [1, 2]),
]


def with_calls(*names: str) -> tuple[Transcript, list[CallRecord]]:
    transcript = Transcript()
    transcript.add_prompt("Go")
    reply = ModelReply("", tuple(ToolCall(f"id {name}", name) for name in names))
    return transcript, transcript.add_reply(reply, model="test").calls


def again(transcript: Transcript) -> Transcript:
    return Transcript.from_json(json.loads(json.dumps(transcript.to_json())))


# --- calls and results ------------------------------------------------------------------------------------------------


def test_a_call_has_one_result() -> None:
    transcript, (call,) = with_calls("a")
    transcript.end(call, ToolResult(True, "1", 1))
    with pytest.raises(RunStateError, match="has its result already"):
        transcript.end(call, ToolResult(True, "2", 2))
    assert again(transcript).calls[0].result == call.result
    assert_whole(transcript)


def test_nothing_is_said_while_calls_are_open() -> None:
    transcript, _ = with_calls("a")
    with pytest.raises(RunStateError):
        transcript.add_prompt("Hello")


def test_results_are_told_in_the_order_of_the_calls() -> None:
    transcript, calls = with_calls("a", "b", "c")
    for call in reversed(calls):
        transcript.end(call, ToolResult(True, call.name, call.name))
    assert [message.call_id for message in transcript.messages() if isinstance(message, Returned)] == [
        "id a",
        "id b",
        "id c",
    ]


def test_a_name_that_a_model_made_up_is_told_back_in_a_form_that_vendors_take() -> None:
    transcript, calls = with_calls("call me, maybe?", "x" * 100, "")
    for call in calls:
        transcript.end(call, ToolResult(False, "Unknown tool"))
    told = [message.name for message in transcript.messages() if isinstance(message, Returned)]
    assert told == ["call_me__maybe_", "x" * 64, "_"]
    assert [call.name for call in calls] == ["call me, maybe?", "x" * 100, ""]


# --- what it was in the middle of -------------------------------------------------------------------------------------


def started(transcript: Transcript, call: CallRecord) -> None:
    transcript.start(call)


def asked(transcript: Transcript, call: CallRecord) -> None:
    transcript.start(call)
    transcript.interrupt(call, ToolInterrupt("Sure?", interrupt_id=f"{call.id}?"))


def answered(transcript: Transcript, call: CallRecord) -> None:
    asked(transcript, call)
    transcript.answer(call, AnswerRecord(value=True))


def answered_and_started(transcript: Transcript, call: CallRecord) -> None:
    answered(transcript, call)
    transcript.start(call)


def ended(transcript: Transcript, call: CallRecord) -> None:
    transcript.start(call)
    transcript.end(call, ToolResult(True, "1", 1))


def nothing(transcript: Transcript, call: CallRecord) -> None:
    pass


@pytest.mark.parametrize(
    ("first", "second", "codes", "waiting"),
    [
        (started, nothing, ["outcome_unknown", "cancelled"], 0),
        (ended, started, [None, "outcome_unknown"], 0),
        (nothing, nothing, ["cancelled", "cancelled"], 0),
        (asked, nothing, ["open", "open"], 1),
        (asked, started, ["open", "outcome_unknown"], 1),
        (asked, asked, ["open", "open"], 2),
        (asked, ended, ["open", None], 1),
        (answered, nothing, ["open", "open"], 0),
        (answered, asked, ["open", "open"], 1),
        (answered_and_started, nothing, ["outcome_unknown", "cancelled"], 0),
        (answered_and_started, asked, ["outcome_unknown", "open"], 1),
    ],
)
def test_a_call_without_a_result_gets_one_when_it_is_loaded_unless_it_waits_for_an_answer(
    first: Callable[[Transcript, CallRecord], None],
    second: Callable[[Transcript, CallRecord], None],
    codes: list[str | None],
    waiting: int,
) -> None:
    transcript, calls = with_calls("a", "b")
    for how, call in zip((first, second), calls, strict=True):
        how(transcript, call)
    loaded = again(transcript)
    assert ["open" if call.result is None else call.result.value().code for call in loaded.calls] == codes
    assert len(loaded.pending) == waiting
    assert again(loaded).to_json() == loaded.to_json()


def test_a_question_of_an_earlier_turn_cannot_stay_open() -> None:
    transcript, (call,) = with_calls("a")
    asked(transcript, call)
    data = transcript.to_json()
    data["records"] += [{"kind": "prompt", "text": "Hello", "at": "2026-01-01T00:00:00Z"}, _reply("b")]
    loaded = Transcript.from_json(data)
    assert all(call.result is not None for call in loaded.calls)


def _reply(call_id: str) -> dict[str, Any]:
    return {"kind": "reply", "text": "", "model": "test", "calls": [{"id": call_id, "name": "x", "arguments": "{}"}]}


def test_interrupts_have_ids_of_their_own_whatever_tools_say() -> None:
    transcript, calls = with_calls("a", "b", "c")
    for call, interrupt_id in zip(calls, ("same", "same", None), strict=True):
        transcript.interrupt(call, ToolInterrupt("Sure?", interrupt_id=interrupt_id))
    ids = [interrupt.interrupt_id for _, interrupt in transcript.pending]
    assert len(set(ids)) == 3


# --- data and nothing else --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "told"), BECOMES_JSON)
def test_what_has_one_meaning_as_json_is_written_so(value: Any, told: Any) -> None:
    transcript, (call, asking) = with_calls("a", "b")
    transcript.end(call, ToolResult(True, "x", {"deep": [value]}))
    transcript.interrupt(asking, ToolInterrupt("Sure?", data=value, state={"deep": value}))
    item = transcript.items.emit("note", value)
    assert item.data == told
    loaded = again(transcript)
    assert loaded.to_json() == transcript.to_json()
    result, interrupt = loaded.calls[0].result, loaded.calls[1].interrupts[0]
    assert result is not None
    assert result.data == {"deep": [told]}
    assert (interrupt.data, interrupt.state) == (told, {"deep": told})


@pytest.mark.parametrize("what", HAZARDS)
def test_what_is_no_json_is_refused_at_the_door(what: str) -> None:
    value = hazard(what)
    transcript, (call,) = with_calls("a")
    before = transcript.to_json()
    with pytest.raises(NotJsonError):
        transcript.end(call, ToolResult(True, "x", {"deep": value}))
    with pytest.raises(NotJsonError):
        transcript.interrupt(call, ToolInterrupt("Sure?", data=value))
    with pytest.raises(NotJsonError):
        transcript.interrupt(call, ToolInterrupt("Sure?", state=value))
    with pytest.raises(NotJsonError):
        transcript.items.emit("note", value)
    with pytest.raises(NotJsonError):
        transcript.items.fold([Item(id="x", type="note", data=value, created_at=datetime.now(UTC))])
    with pytest.raises(NotJsonError):
        transcript.add_reply(ModelReply("", kept=value), model="test")
    assert transcript.to_json() == before


def test_data_may_be_as_deep_as_anywhere() -> None:
    transcript, (call,) = with_calls("a")
    deep = nested(128)
    transcript.end(call, ToolResult(True, "x", deep))
    transcript.items.emit("note", deep)
    loaded = again(transcript)
    assert loaded.items.list()[0].data == deep
    assert loaded.to_json() == transcript.to_json()


@pytest.mark.parametrize("what", HAZARDS)
def test_a_transcript_that_was_tampered_with_is_refused(what: str) -> None:
    transcript, (call,) = with_calls("a")
    transcript.end(call, ToolResult(True, "x", 1))
    transcript.items.emit("note", 1)
    for place in (["records", 1, "calls", 0, "result"], ["records", 2, "item"]):
        data: Any = transcript.to_json()
        part = data
        for step in place:
            part = part[step]
        part["data"] = hazard(what)
        with pytest.raises(TranscriptError, match="malformed at"):
            Transcript.from_json(data)


def test_loading_makes_no_object_of_a_class_that_the_data_names() -> None:
    transcript, (call,) = with_calls("a")
    odd = {"__class__": "os.system", "py/object": "subprocess.Popen", "lc": 1, "type": "constructor"}
    transcript.end(call, ToolResult(True, "x", odd))
    (loaded,) = again(transcript).calls
    assert loaded.result is not None
    assert loaded.result.data == odd


def test_fields_that_a_newer_version_writes_are_ignored() -> None:
    transcript, (call,) = with_calls("a")
    transcript.end(call, ToolResult(True, "1", 1))
    data = transcript.to_json()
    data["new"] = data["records"][0]["new"] = data["records"][1]["calls"][0]["new"] = {"x": 1}
    assert Transcript.from_json(data).to_json() == transcript.to_json()


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({}, "records"),
        ({"records": [{"kind": "surprise"}]}, r"records\.0"),
        ({"records": [{"kind": "prompt"}]}, r"records\.0\.prompt\.text"),
        ({"records": [{**_reply("a"), "calls": [{"id": 7}]}]}, r"records\.0\.reply\.calls\.0\.id"),
    ],
)
def test_what_is_no_transcript_is_refused_with_the_place(data: Any, place: str) -> None:
    with pytest.raises(TranscriptError, match=f"malformed at {place}"):
        Transcript.from_json(data)


def test_what_a_model_keeps_for_itself_comes_back_to_it() -> None:
    transcript = Transcript()
    transcript.add_reply(ModelReply("Hello", usage=Usage(1, 2, 1), kept={"signature": "x"}), model="test")
    assert again(transcript).messages() == transcript.messages()
    assert transcript.messages() == (Replied("Hello", kept={"signature": "x"}),)


# --- items ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [ItemStore, lambda: Transcript().items], ids=["store", "transcript"])
def test_items_are_read_and_written_by_one_interface(make: Callable[[], ToolItems]) -> None:
    items = make()
    assert (items.latest("note"), items.list()) == (None, [])
    first = items.emit("note", {"n": 1})
    other = items.emit("place", None)
    second = items.emit("note", {"n": 2})
    assert items.list() == [first, other, second]
    assert items.list("note") == [first, second]
    assert items.latest("note") == second
    foreign = Item(id="foreign", type="note", data=3, created_at=datetime.now(UTC))
    items.fold([first, foreign])
    items.fold([foreign])
    assert items.list() == [first, other, second, foreign]


def test_items_stand_where_they_were_emitted() -> None:
    transcript, (call,) = with_calls("a")
    transcript.items.emit("note", 1)
    transcript.end(call, ToolResult(True, "1", 1))
    transcript.add_prompt("And then?")
    transcript.items.emit("note", 2)
    assert [record.kind for record in again(transcript).records] == ["prompt", "reply", "item", "prompt", "item"]
    assert [item.data for item in again(transcript).items.list()] == [1, 2]
