"""A sandbox: it runs scripts that call tools, and lets them go on when people have answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from grundlag_bus.errors import (
    ConfigurationError,
    NotJsonError,
    RunStateError,
    ScriptError,
    ScriptInvalidError,
    ScriptReplayError,
    ToolInterrupt,
)
from grundlag_bus.sandbox.script.asking import checked_answers, interrupt_of, journal_in, name_of
from grundlag_bus.sandbox.script.calling import Calls
from grundlag_bus.sandbox.script.engine import Program
from grundlag_bus.sandbox.script.history import History
from grundlag_bus.sandbox.script.inputs import checked_inputs
from grundlag_bus.sandbox.script.limits import Limits
from grundlag_bus.sandbox.script.pool import EnginePool
from grundlag_bus.sandbox.script.prompt import prompt_of
from grundlag_bus.sandbox.script.results import ScriptResult, calls_of, json_value
from grundlag_bus.sandbox.script.rewrite import rewritten
from grundlag_bus.sandbox.script.running import Running, Waiting
from grundlag_bus.sandbox.script.stubs import functions_of
from grundlag_bus.schema.codec import plain
from grundlag_bus.tools import MemoryJournal, ToolContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grundlag_bus.sandbox.script.running import Asleep
    from grundlag_bus.tools import Journal, Tool

_SHARED = EnginePool()
_REMEMBERED = 10_000


class Sandbox:
    """Runs scripts that call tools. It holds nothing while none runs, and needs no closing.

    limits: of each script; allow: the names of the functions that scripts may call, all where it is not given; pool:
    where engines run, shared by all sandboxes of the process where it is not given. Raises ConfigurationError for a
    tool that a script cannot call, and for an allowed one that there is not.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        limits: Limits | None = None,
        allow: Iterable[str] | None = None,
        pool: EnginePool | None = None,
    ) -> None:
        names = tools.keys() if allow is None else frozenset(allow)
        if unknown := names - tools.keys():
            raise ConfigurationError(f"There is no tool {min(unknown)!r} to allow: correct allow=.")
        self._tools = {name: tool for name, tool in tools.items() if name in names}
        self._functions = functions_of(self._tools)
        self._limits = limits or Limits()
        self._pool = pool or _SHARED
        self._answered: dict[str, None] = {}

    def prompt(self, *, inputs: Iterable[str] = ()) -> str:
        """Return what a model, or a person, has to know to write a script: the language and the tools.

        inputs: the names that `run` will bind.
        """
        return prompt_of(self._functions.values(), inputs=inputs)

    async def run(
        self,
        source: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        context: ToolContext | None = None,
        journal: Journal | None = None,
        asleep: Asleep | None = None,
    ) -> ScriptResult:
        """Run a script. inputs: plain JSON data, each bound as a name; context: given to each of its tools.

        journal: where it is written down; one that has entries is gone on with, with the inputs that are in it, and
        calls without an outcome in it are made again. asleep: an async function, awaited whenever the script has given
        up its engine and waits for nothing but calls; it may raise, to go on from the journal when they have ended.
        Raises ScriptError, and ToolInterrupt when all that can run has ended and people must answer first: its
        `pending` are the interrupts of the calls, its `state` is plain JSON data, all that `resume` needs.
        """
        engine = _load_engine()
        history = History(MemoryJournal() if journal is None else journal)
        if history.began is None:
            self._check_source(source)
            bound = checked_inputs(inputs or {}, self._functions)
            await history.begin(source=source, inputs=bound, seed=uuid4().hex, now=time.time(), engine=engine.VERSION)
        elif history.began["source"] != source:
            raise ScriptReplayError("The journal is one of another script: give the script that it was begun with.")
        return await self._go_on(history, context or ToolContext(), asleep)

    async def resume(
        self,
        interrupt: ToolInterrupt,
        answers: Mapping[str, Any],
        *,
        context: ToolContext | None = None,
        by: str | None = None,
        journal: Journal | None = None,
    ) -> ScriptResult:
        """Go on with a script that waits, with some or all of the answers, by the ids of the pending interrupts.

        interrupt: as `run` or `resume` raised it; only its `state` counts, which may have been kept as JSON. by: who
        answered, where that is not the context's user; journal: as it was given to `run`. Nothing that has ended is
        called again. Raises as `run` does; InterruptUnknownError, AnswerInvalidError, and RunStateError when it was
        answered here before, and then nothing has happened. When an action itself refuses an answer, its interrupt is
        pending again, and the ToolInterrupt has the AnswerInvalidError as its cause.
        """
        _load_engine()
        history = History(MemoryJournal(journal_in(interrupt)) if journal is None else journal)
        checked = checked_answers(history, answers)
        name = name_of(interrupt)
        if name in self._answered:
            raise RunStateError("This interrupt of the script was answered before: answer the newest one.")
        self._remember(name)
        try:
            for call, (interrupt_id, answer) in checked.items():
                await history.answer(call, interrupt_id, answer, by)
            return await self._go_on(history, context or ToolContext())
        except BaseException as error:
            if not isinstance(error, (ScriptError, ToolInterrupt)) or getattr(error, "limit", None) == "engine":
                self._answered.pop(name, None)  # it may be answered again
            raise

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _go_on(self, history: History, context: ToolContext, asleep: Asleep | None = None) -> ScriptResult:
        began = history.began
        if began is None:
            raise ScriptReplayError("The journal has no beginning: it is none of a script.")
        if missing := {call.function for call in history.calls.values()} - self._functions.keys():
            raise history.mismatch(f"it calls {min(missing)}, which is not among the tools")
        self._check_source(began["source"])
        try:
            inputs = checked_inputs(began["inputs"], self._functions)
        except (ConfigurationError, NotJsonError) as error:
            raise history.mismatch(f"its inputs do not fit ({error})") from error
        source, declared = rewritten(began["source"])
        program = Program(
            source=source,
            inputs=inputs,
            functions=self._functions,
            limits=self._limits,
            seed=began["seed"],
            now=began["now"],
            declared=declared,
            checked=bool(history.calls),
        )
        calls = Calls(self._tools, context, history, self._limits.in_flight)
        engine = _load_engine().MontyEngine
        running = Running(program, history, calls, self._pool, engine, user_id=context.user_id, asleep=asleep)
        try:
            value = json_value(await running.run(context.signal))
        except Waiting as waiting:
            interrupt = interrupt_of(waiting.interrupts, history)
            interrupt.stdout = running.printed
            raise interrupt from calls.refused
        except ScriptError as error:
            error.calls = calls_of(history.calls.values())
            error.stdout = running.printed
            raise
        return ScriptResult(value, running.printed, calls_of(history.calls.values()))

    def _check_source(self, source: str) -> None:
        if len(source) > self._limits.source:
            raise ScriptInvalidError(
                f"The script has {len(source)} characters, and the limit is {self._limits.source}: make it shorter."
            )
        try:
            plain(source)
        except NotJsonError as error:
            raise ScriptInvalidError(f"The script is no Unicode text: {error.issue.message}.") from error

    def _remember(self, name: str) -> None:
        self._answered[name] = None
        if len(self._answered) > _REMEMBERED:
            del self._answered[next(iter(self._answered))]


def _load_engine() -> Any:
    """Load the engine, which is an extra. Raises ConfigurationError."""
    try:
        from grundlag_bus.sandbox.script import engine_monty  # noqa: PLC0415  loaded when a script runs
    except ModuleNotFoundError as error:
        if error.name != "pydantic_monty":
            raise
        raise ConfigurationError(
            "Scripts need pydantic-monty, which is not installed: pip install 'grundlag-bus[sandbox]'."
        ) from error
    return engine_monty
