from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from grundlag_bus import (
    Defer,
    EnginePool,
    MemoryJournal,
    Sandbox,
    ScriptCancelledError,
    ScriptFailedError,
    ScriptReplayError,
    ToolContext,
    ToolInterrupt,
    testing,
)
from grundlag_bus.sandbox.script import running
from grundlag_bus.sandbox.script.engine_monty import MontyEngine
from tests.support.engines import engines
from tests.support.eventually import eventually
from tests.support.script_tools import tools_of


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each engine that starts whether the types were checked before."""
    noted: list[bool] = []
    start = MontyEngine.start

    def noting(self: MontyEngine, program: Any) -> Any:
        noted.append(program.checked)
        return start(self, program)

    monkeypatch.setattr(MontyEngine, "start", noting)
    return noted


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.2)


@pytest.mark.usefixtures("_impatient")
async def test_a_script_that_waits_holds_no_engine_and_goes_on_by_replay(started: list[bool]) -> None:
    gate = asyncio.Event()
    runs: list[Any] = []

    async def first(value: Any, _: ToolContext) -> Any:
        runs.append(value)
        return value

    async def long(value: Any, _: ToolContext) -> Any:
        runs.append(value)
        await gate.wait()
        return value

    source = (
        "print('a')\none = await first(1)\ntwo = await long(2)\nprint('b')\nthree = await first(3)\n[one, two, three]"
    )
    script = asyncio.create_task(Sandbox(tools_of(first=first, long=long)).run(source))
    await eventually(lambda: runs == [1, 2] and not engines())
    assert not [thread for thread in threading.enumerate() if thread.name == "grundlag-script"]
    gate.set()
    result = await script
    assert (result.value, result.stdout) == ([1, 2, 3], "a\nb\n")
    assert runs == [1, 2, 3]
    assert started == [False, True]


@pytest.mark.usefixtures("_impatient")
async def test_a_tool_that_runs_a_script_does_not_wait_for_the_one_engine_that_waits_for_it() -> None:
    pool = EnginePool(1)

    async def inner(value: Any, _: ToolContext) -> Any:
        return (await Sandbox({}, pool=pool).run("value + 1", inputs={"value": value})).value

    sandbox = Sandbox(tools_of(inner=inner), pool=pool)
    source = "import asyncio\nawait asyncio.gather(*[inner(n) for n in range(3)])"
    async with asyncio.timeout(60):
        assert (await sandbox.run(source)).value == [1, 2, 3]


async def test_a_script_that_waits_makes_room_for_one_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 600.0)
    gate = asyncio.Event()

    async def wait(_: Any, __: ToolContext) -> Any:
        await gate.wait()

    async def open_gate(_: Any, __: ToolContext) -> Any:
        gate.set()

    pool = EnginePool(1)
    sandbox = Sandbox(tools_of(wait=wait, open_gate=open_gate), pool=pool)
    async with asyncio.timeout(60):
        await asyncio.gather(sandbox.run("await wait(1)"), sandbox.run("await open_gate(1)"))


async def test_more_scripts_than_engines_all_end() -> None:
    pool = EnginePool(2)
    results = await asyncio.gather(*(Sandbox({}, pool=pool).run(f"{number} * 2") for number in range(8)))
    assert [result.value for result in results] == [number * 2 for number in range(8)]


async def test_forced_replay_gives_each_outcome_to_an_engine_of_its_own(started: list[bool]) -> None:
    async def give(value: Any, _: ToolContext) -> Any:
        return value

    with testing.forced_replay():
        result = await Sandbox(tools_of(give=give)).run("[await give(n) for n in range(3)]")
    assert result.value == [0, 1, 2]
    assert started == [False, True, True, True]


async def test_the_order_in_which_outcomes_were_given_is_kept_over_a_replay() -> None:
    gates = {number: asyncio.Event() for number in range(3)}

    async def wait(value: Any, _: ToolContext) -> Any:
        await gates[value].wait()
        return value

    async def tell(value: Any, _: ToolContext) -> Any:
        gates[value].set()

    async def ask(value: Any, context: ToolContext) -> Any:
        if context.resumption is None:
            raise ToolInterrupt("Go on?")
        return context.resumption.answer

    source = """\
import asyncio
order: list[int] = []

async def one(number: int) -> None:
    order.append(await wait(number))
    if number:
        await tell(number - 1)

await asyncio.gather(one(0), one(1), one(2), tell(2))
await ask(None)
order
"""
    sandbox = Sandbox(tools_of(wait=wait, tell=tell, ask=ask))
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.run(source)
    answers = {str(raised.value.pending[0].interrupt_id): "yes"}
    assert (await sandbox.resume(raised.value, answers)).value == [2, 1, 0]


async def test_interrupts_without_ids_get_one_each_and_each_tool_its_own_answer() -> None:
    given: list[Any] = []

    async def ask(value: Any, context: ToolContext) -> Any:
        if context.resumption is None:
            raise ToolInterrupt("Which?", state={"asked": value})
        given.append((value, context.resumption.state, context.resumption.by))
        return context.resumption.answer

    sandbox = Sandbox(tools_of(ask=ask))
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.run("import asyncio\nawait asyncio.gather(ask({'of': 1}), ask({'of': 2}))")
    answers = {str(one.interrupt_id): one.input["of"] * 7 for one in raised.value.pending}
    result = await sandbox.resume(raised.value, answers, by="grace")
    assert result.value == [7, 14]
    assert sorted(given, key=str) == [
        ({"of": 1}, {"asked": {"of": 1}}, "grace"),
        ({"of": 2}, {"asked": {"of": 2}}, "grace"),
    ]


async def test_what_a_tool_raises_otherwise_is_internal_and_names_its_type() -> None:
    async def fail(_: Any, __: ToolContext) -> Any:
        raise LookupError("nothing there")

    with pytest.raises(ScriptFailedError, match=r"RuntimeError: internal: fail raised LookupError: nothing there"):
        await Sandbox(tools_of(fail=fail)).run("await fail(1)")


async def test_a_long_failure_is_told_in_short() -> None:
    async def fail(_: Any, __: ToolContext) -> Any:
        raise LookupError("x" * 100_000)

    for source in ("await fail(1)", "raise ValueError('x' * 100_000)"):
        with pytest.raises(ScriptFailedError) as raised:
            await Sandbox(tools_of(fail=fail)).run(source)
        assert len(str(raised.value)) < 5_000


async def test_what_a_tool_raises_that_no_text_can_tell_fails_the_call_alone() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    async def unwritable(_: Any, __: ToolContext) -> Any:
        raise FileNotFoundError("\udcff.txt")

    async def mute(_: Any, __: ToolContext) -> Any:
        raise MuteError

    tools = tools_of(unwritable=unwritable, mute=mute)
    for name, told in (("unwritable", "internal: unwritable failed"), ("mute", "internal: mute raised MuteError")):
        source = f"told = ''\ntry:\n    await {name}(1)\nexcept RuntimeError as error:\n    told = str(error)\ntold"
        assert (await Sandbox(tools).run(source)).value.startswith(told)


async def test_a_question_whose_end_has_no_offset_fails_its_call_alone() -> None:
    async def aware(_: Any, __: ToolContext) -> Any:
        raise ToolInterrupt("Sure?", expires_at=datetime(2030, 1, 1, tzinfo=UTC))

    async def naive(_: Any, __: ToolContext) -> Any:
        raise ToolInterrupt("Sure?", expires_at=datetime(2030, 1, 1))  # noqa: DTZ001  the mistake that is meant

    source = (
        "import asyncio\nasync def safe():\n    try:\n        await naive(1)\n    except RuntimeError:\n        pass\n"
        "await asyncio.gather(aware(1), safe())"
    )
    with pytest.raises(ToolInterrupt) as raised:
        await Sandbox(tools_of(aware=aware, naive=naive)).run(source)
    assert [one.message for one in raised.value.pending] == ["Sure?"]


async def test_a_tool_that_defers_fails_since_only_actions_can() -> None:
    async def put_off(_: Any, __: ToolContext) -> Any:
        raise Defer(after=1)

    with pytest.raises(ScriptFailedError, match="internal: put_off raised Defer"):
        await Sandbox(tools_of(put_off=put_off)).run("await put_off(1)")


async def test_a_tool_that_is_deaf_to_the_signal_is_cancelled_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_GRACE", 0.1)
    noted: list[str] = []

    async def deaf(_: Any, __: ToolContext) -> Any:
        noted.append("started")
        try:
            await asyncio.sleep(60)
        finally:
            noted.append("ended")

    signal = asyncio.Event()
    script = asyncio.create_task(Sandbox(tools_of(deaf=deaf)).run("await deaf(1)", context=ToolContext(signal=signal)))
    await eventually(lambda: noted == ["started"])
    signal.set()
    with pytest.raises(ScriptCancelledError):
        await script
    assert noted == ["started", "ended"]


class Slow(MemoryJournal):
    """Takes a while to write, longer than a script keeps its engine."""

    async def append(self, entry: dict[str, Any]) -> None:
        await asyncio.sleep(0.3)
        await super().append(entry)


@pytest.mark.usefixtures("_impatient")
async def test_what_a_slow_journal_writes_is_written_once_and_whole() -> None:
    async def give(value: Any, _: ToolContext) -> Any:
        return value

    journal = Slow()
    assert (await Sandbox(tools_of(give=give)).run(SOURCE, journal=journal)).value == [1, 2]
    kinds = [entry["kind"] for entry in journal.entries()]
    assert kinds == ["began", "called", "settled", "delivered", "called", "settled", "delivered"]


async def test_a_tool_that_cancels_itself_fails_and_cancels_nobody() -> None:
    async def fail(_: Any, __: ToolContext) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(ScriptFailedError, match="cancelled: fail cancelled itself"):
        await Sandbox(tools_of(fail=fail)).run("await fail(1)")


# --- journals ---------------------------------------------------------------------------------------------------------


class Cut(MemoryJournal):
    """Breaks before a certain entry is written, as a process does that dies there."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._room = after

    async def append(self, entry: dict[str, Any]) -> None:
        if not self._room:
            raise ConnectionError
        self._room -= 1
        await super().append(entry)


SOURCE = "one = await give(1)\ntwo = await give(one + 1)\nprint(two)\n[one, two]"


@pytest.mark.parametrize("after", range(7))
async def test_a_script_goes_on_from_wherever_its_journal_ends(after: int) -> None:
    runs: list[Any] = []

    async def give(value: Any, _: ToolContext) -> Any:
        runs.append(value)
        return value

    sandbox = Sandbox(tools_of(give=give))
    cut = Cut(after)
    with pytest.raises(ConnectionError):
        await sandbox.run(SOURCE, journal=cut)
    settled = [entry["call"] for entry in cut.entries() if entry["kind"] == "settled"]
    before = len(runs)
    result = await sandbox.run(SOURCE, journal=MemoryJournal(cut.entries()))
    assert (result.value, result.stdout) == ([1, 2], "2\n")
    assert len(runs) - before == 2 - len(settled)


async def test_a_journal_that_is_kept_outside_goes_on_with_the_answers() -> None:
    async def ask(_: Any, context: ToolContext) -> Any:
        if context.resumption is None:
            raise ToolInterrupt("Which?")
        return context.resumption.answer

    journal = MemoryJournal()
    sandbox = Sandbox(tools_of(ask=ask))
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.run("await ask(1)", journal=journal)
    answers = {str(raised.value.pending[0].interrupt_id): 7}
    assert (await sandbox.resume(raised.value, answers, journal=journal)).value == 7
    assert [entry["kind"] for entry in journal.entries()] == [
        "began",
        "called",
        "settled",
        "answered",
        "settled",
        "delivered",
    ]


async def test_a_journal_of_another_script_is_refused() -> None:
    journal = MemoryJournal()
    sandbox = Sandbox({})
    assert (await sandbox.run("1", journal=journal)).value == 1
    with pytest.raises(ScriptReplayError):
        await sandbox.run("2", journal=journal)


async def test_an_answer_that_is_in_the_journal_is_given_again_after_a_crash() -> None:
    journal = MemoryJournal()

    async def ask(_: Any, context: ToolContext) -> Any:
        if context.resumption is None:
            raise ToolInterrupt("Which?")
        return context.resumption.answer

    sandbox = Sandbox(tools_of(ask=ask))
    with pytest.raises(ToolInterrupt) as raised:
        await sandbox.run("await ask(1)", journal=journal)
    asked = raised.value.pending[0].interrupt_id
    await journal.append({"kind": "answered", "call": 0, "interruptId": asked, "answer": 7, "by": None})
    assert (await sandbox.run("await ask(1)", journal=journal)).value == 7
