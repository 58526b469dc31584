"""A script gives the same wherever its tools are."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from grundlag_bus import (
    ItemStore,
    Limits,
    Sandbox,
    ScriptFailedError,
    ScriptInvalidError,
    ScriptLimitError,
    ScriptValueError,
    ToolContext,
)
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host

GATHERED = """\
import asyncio
found = await asyncio.gather(*[contractAdd(number, b=1) for number in range(40)])
[one["sum"] for one in found]
"""


async def test_the_value_is_that_of_the_last_expression(sandbox: Sandbox) -> None:
    result = await sandbox.run("total = await contractAdd(a=1, b=2)\nprint(total)\n{'total': total['sum']}")
    assert result.value == {"total": 3}
    assert result.stdout == "{'sum': 3}\n"
    call = result.calls[0]
    assert (call.function, call.input, call.status, call.value, call.line) == (
        "contractAdd",
        {"a": 1, "b": 2},
        "completed",
        {"sum": 3},
        1,
    )
    assert call.ended_at is not None
    assert call.started_at <= call.ended_at


async def test_gathered_calls_run_side_by_side_and_each_once(sandbox: Sandbox) -> None:
    result = await sandbox.run(GATHERED)
    assert result.value == list(range(1, 41))
    assert seen.runs["add"] == 40
    assert [call.number for call in result.calls] == list(range(40))


async def test_so_many_calls_run_at_once_and_no_more(host: Host) -> None:
    sandbox = Sandbox(host.tools, limits=Limits(in_flight=3))
    source = "import asyncio\nawait asyncio.gather(*[contractHold(str(n)) for n in range(5)])\nNone"
    running = asyncio.create_task(sandbox.run(source))
    await eventually(lambda: seen.runs.total() == 3)
    await asyncio.sleep(0.05)
    assert dict(seen.runs) == {"hold 0": 1, "hold 1": 1, "hold 2": 1}
    for number in range(5):
        seen.gate(str(number)).set()
    await running
    assert seen.runs.total() == 5


async def test_a_failing_call_is_a_runtime_error_of_code_and_text(sandbox: Sandbox) -> None:
    source = "try:\n    await contractRaise('ActionFailed')\nexcept RuntimeError as error:\n    told = str(error)\ntold"
    result = await sandbox.run(source)
    assert result.value == "sold_out: There is none left."
    assert (result.calls[0].status, result.calls[0].code) == ("failed", "sold_out")


async def test_a_refused_input_is_a_runtime_error_with_the_issues(sandbox: Sandbox) -> None:
    source = "try:\n    await contractEven(3)\nexcept RuntimeError as error:\n    told = str(error)\ntold"
    assert str((await sandbox.run(source)).value).startswith("input_invalid: The input of even is not valid: ")


async def test_an_uncaught_failure_ends_the_script_with_line_and_signature(sandbox: Sandbox) -> None:
    with pytest.raises(ScriptFailedError) as raised:
        await sandbox.run("one = 1\nprint('before')\nawait contractRaise('ActionFailed')")
    error = raised.value
    assert (error.line, error.exception, error.source) == (3, "RuntimeError", "await contractRaise('ActionFailed')")
    assert error.message == "RuntimeError: sold_out: There is none left."
    assert "async def contractRaise(name: str)" in str(error)
    assert error.stdout == "before\n"
    assert [call.status for call in error.calls] == ["failed"]


async def test_siblings_of_an_uncaught_failure_end_and_what_has_not_started_never_does(host: Host) -> None:
    sandbox = Sandbox(host.tools, limits=Limits(in_flight=2))
    source = """\
import asyncio
await asyncio.gather(contractHold("sibling"), contractRaise("ActionFailed"), contractHold("x"), contractHold("y"))
"""
    running = asyncio.create_task(sandbox.run(source))
    await eventually(lambda: seen.runs["hold sibling"] == 1 and seen.runs["hold x"] == 1)
    await asyncio.sleep(0.2)
    seen.gate("sibling").set()
    seen.gate("x").set()
    with pytest.raises(ScriptFailedError) as raised:
        await running
    assert [(call.input, call.status) for call in raised.value.calls] == [
        ({"name": "sibling"}, "completed"),
        ({"name": "ActionFailed"}, "failed"),
        ({"name": "x"}, "completed"),
    ]
    assert seen.runs["hold y"] == 0


async def test_a_script_that_ends_waits_for_calls_whose_outcome_it_does_not_want(sandbox: Sandbox) -> None:
    source = """\
import asyncio
try:
    await asyncio.gather(contractHold("sibling"), contractRaise("ActionFailed"))
except RuntimeError:
    pass
"done"
"""
    running = asyncio.create_task(sandbox.run(source))
    await eventually(lambda: seen.runs["hold sibling"] == 1)
    await asyncio.sleep(0.3)
    assert not running.done()
    seen.gate("sibling").set()
    result = await running
    assert (result.value, [call.status for call in result.calls]) == ("done", ["completed", "failed"])


async def test_types_are_checked_before_anything_runs(sandbox: Sandbox) -> None:
    with pytest.raises(ScriptInvalidError) as raised:
        await sandbox.run("await contractAdd(1, 2)\nawait contractAdd('one', 2)\n")
    error = raised.value
    assert error.line == 2
    assert error.problems[0][1] == "invalid-argument-type"
    assert "Expected `int`" in error.message
    assert "async def contractAdd(a: int, b: int)" in str(error)
    assert seen.runs["add"] == 0


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = (1 +\n", "unexpected EOF"),
        ("await nothing(1)", "Name `nothing` used when not defined"),
        ("class Mine(ValueError):\n    pass", "class inheritance"),
        ("import requests", "Cannot resolve imported module `requests`"),
        ("contractAdd(1, 2)\n3", "is not awaited"),
    ],
    ids=["syntax", "unknown", "not in the language", "import", "not awaited"],
)
async def test_what_is_no_script_is_refused_with_its_line(sandbox: Sandbox, source: str, told: str) -> None:
    with pytest.raises(ScriptInvalidError) as raised:
        await sandbox.run(source)
    assert told in str(raised.value)
    assert raised.value.line is not None
    assert not seen.runs


async def test_only_allowed_functions_are_there(host: Host) -> None:
    sandbox = Sandbox(host.tools, allow=["contractAdd"])
    assert (await sandbox.run("await contractAdd(1, 2)")).value == {"sum": 3}
    assert "contractEcho" not in sandbox.prompt()
    with pytest.raises(ScriptInvalidError, match="contractEcho"):
        await sandbox.run("await contractEcho(1)")
    hidden = "name = 'contractEcho'\neval(name)"
    with pytest.raises((ScriptInvalidError, ScriptFailedError)):
        await sandbox.run(hidden)
    assert seen.runs["echo"] == 0


async def test_inputs_are_names(sandbox: Sandbox) -> None:
    result = await sandbox.run("await contractAdd(numbers[0], numbers[1])", inputs={"numbers": [1, 2]})
    assert result.value == {"sum": 3}


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("float('nan')", ()),
        ("{'a': [1, {1, 2}]}", ("a", 1)),
        ("[10 ** 30]", (0,)),
        ("b'raw'", ()),
        ("{1: 2}", ()),
        ("import datetime\n{'at': datetime.datetime(2026, 1, 1)}", ("at",)),
        ("def f() -> int:\n    return 1\n[f]", (0,)),
        ("[contractAdd(1, 2)]", (0,)),
        ("{'tool': contractAdd}", ("tool",)),
        ("{'keys': {'a': 1}.keys()}", ("keys",)),
        ("print", ()),
        ("class Mine:\n    pass\n[Mine()]", (0,)),
    ],
    ids=["nan", "set", "huge", "bytes", "key", "naive", "function", "call", "tool", "view", "builtin", "object"],
)
async def test_a_value_that_is_no_json_is_refused_with_its_place(
    sandbox: Sandbox, source: str, place: tuple[Any, ...]
) -> None:
    with pytest.raises(ScriptValueError) as raised:
        await sandbox.run(source)
    assert raised.value.issue.path[: len(place)] == place


async def test_dataclasses_become_objects(sandbox: Sandbox) -> None:
    source = """\
from dataclasses import dataclass

@dataclass
class Place:
    name: str
    sizes: list[int]

place = Place("here", [1])
[[Place(str(n), [n]) for n in range(50)], place, place, await contractEcho({"at": place})]
"""
    here = {"name": "here", "sizes": [1]}
    all_places = [{"name": str(number), "sizes": [number]} for number in range(50)]
    assert (await sandbox.run(source)).value == [all_places, here, here, {"value": {"at": here}}]


async def test_tuples_and_aware_times_become_json(sandbox: Sandbox) -> None:
    source = "from datetime import datetime, timezone\n((1, 'a'), datetime(2026, 1, 1, tzinfo=timezone.utc))"
    assert (await sandbox.run(source)).value == [[1, "a"], "2026-01-01T00:00:00Z"]


async def test_the_context_reaches_the_tools(sandbox: Sandbox) -> None:
    heard: list[Any] = []
    items = ItemStore()
    items.emit("note", {"number": 0})
    context = ToolContext(user_id="ada", items=items, on_progress=heard.append)
    source = """\
who = await contractWhoAmI()
await contractWork(2)
told = await contractRecall()
[who["value"]["user"], len(told["types"])]
"""
    result = await sandbox.run(source, context=context)
    assert result.value == ["ada", 3]
    assert [item.type for item in items] == ["note", "step", "step"]
    assert any(progress.done == 2 for progress in heard)


async def test_the_clock_stands_still_and_chance_is_the_same_at_each_replay(sandbox: Sandbox) -> None:
    source = """\
import random
import time
first = [random.random(), time.time()]
await contractAdd(1, 2)
second = [random.random(), time.time()]
await contractEcho({"first": first, "second": second})
[first[1] == second[1], first[0] != second[0]]
"""
    assert (await sandbox.run(source)).value == [True, True]
    assert seen.runs["echo"] == 1


async def test_prints_are_kept_up_to_a_limit_and_the_rest_is_told(host: Host) -> None:
    sandbox = Sandbox(host.tools, limits=Limits(output=10))
    result = await sandbox.run("print('a' * 8)\nawait contractAdd(1, 2)\nprint('b' * 8)\n1")
    assert result.stdout == "aaaaaaaa\nb\n[8 more characters were printed]\n"


async def test_a_script_may_do_without_tools_and_without_a_value(sandbox: Sandbox) -> None:
    result = await sandbox.run("x = 1")
    assert (result.value, result.calls, result.stdout) == (None, (), "")


async def test_a_function_can_be_handed_on_as_a_value(sandbox: Sandbox) -> None:
    source = "import asyncio\nboth = [contractAdd, contractAdd]\nawait asyncio.gather(*[one(1, 2) for one in both])"
    assert (await sandbox.run(source)).value == [{"sum": 3}, {"sum": 3}]


async def test_a_script_that_stops_too_often_is_ended(host: Host) -> None:
    sandbox = Sandbox(host.tools, limits=Limits(suspensions=20))
    with pytest.raises(ScriptLimitError) as raised:
        await sandbox.run("for number in range(100):\n    await contractAdd(number, 1)")
    assert raised.value.limit == "suspensions"
    assert 0 < len(raised.value.calls) <= 20


async def test_a_script_whose_calls_give_more_than_the_host_keeps_is_ended(host: Host) -> None:
    sandbox = Sandbox(host.tools, limits=Limits(journal=1_000_000))
    with pytest.raises(ScriptLimitError) as raised:
        await sandbox.run("for number in range(100):\n    await contractProduce(100_000)")
    assert raised.value.limit == "journal"
    assert len(raised.value.calls) == 10


async def test_nothing_is_left_of_a_script_that_has_ended(sandbox: Sandbox) -> None:
    await sandbox.run("await contractAdd(1, 2)")
    assert not [thread for thread in threading.enumerate() if thread.name == "grundlag-script"]
