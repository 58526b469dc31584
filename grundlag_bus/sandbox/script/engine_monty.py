"""Executes scripts with pydantic-monty, in a process of its own that lives as long as one execution.

A process costs 30 ms, and with it nothing of one script can reach another. It is driven by the synchronous interface
alone (the other one can abort the interpreter at its exit), in one thread, with which it dies.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

import pydantic_monty as monty

from grundlag_bus.errors import NotJsonError, ScriptLimitError, ScriptValueError
from grundlag_bus.sandbox.script.complaints import wrong_for_sure
from grundlag_bus.sandbox.script.engine import Answer, Blocked, Finished, MadeCall, Program
from grundlag_bus.sandbox.script.engine_errors import translate
from grundlag_bus.sandbox.script.engine_prelude import DECLARATIONS, PRELUDE
from grundlag_bus.sandbox.script.engine_program import launcher
from grundlag_bus.sandbox.script.engine_values import as_data
from grundlag_bus.sandbox.script.printing import Printed
from grundlag_bus.sandbox.script.stubs import text_of
from grundlag_bus.schema.codec import plain

if TYPE_CHECKING:
    from grundlag_bus.sandbox.script.stubs import Function

VERSION = f"pydantic-monty {monty.__version__}"
_FUNCTION = "<function "
_NO_SLEEP = "a script cannot sleep: call a tool that waits, or end and let the host run another script later"


class MontyEngine:
    """See `Engine`."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._process: int | None = None  # a pidfd: no other process can come to have its number
        self._killing = threading.Lock()
        self._killed = False
        self._program: Program
        self._snapshot: Any = None
        self._numbers: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._printed = Printed(1)
        self._encoded = b""  # the engine tells places in bytes

    @property
    def printed(self) -> str:
        return self._printed.text

    def start(self, program: Program) -> Blocked | Finished:
        """See `Engine.start`."""
        self._program = program
        self._printed = Printed(program.limits.output)
        self._encoded = program.source.encode()
        try:
            session = self._open(program)
            session.feed_run(PRELUDE, skip_type_check=True)
            try:
                self._snapshot = self._feed(session, checked=program.checked)
            except monty.MontyTypingError as error:
                if wrong_for_sure(program.source, error.display()):
                    raise
                self._snapshot = self._feed(session, checked=True)
            return self._advance()
        except (monty.MontyError, RuntimeError, OSError) as error:
            self._fail(error)

    def deliver(self, number: int, answer: Answer) -> Blocked | Finished:
        """See `Engine.deliver`."""
        try:
            self._snapshot = self._snapshot.resume({self._ids[number]: _result(answer)})
            return self._advance()
        except (monty.MontyError, RuntimeError) as error:
            self._fail(error)

    def kill(self) -> None:
        """See `Engine.kill`."""
        with self._killing:
            self._killed = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def close(self) -> None:
        """See `Engine.close`."""
        self.kill()  # an orderly end would wait for what it is in the middle of
        with suppress(monty.MontyError, RuntimeError, OSError):
            self._held.close()
        with self._killing:
            if self._process is not None:
                os.close(self._process)
                self._process = None

    # --- inside -------------------------------------------------------------------------------------------------------

    def _open(self, program: Program) -> monty.MontySession:
        limits = program.limits
        grace = min(1.0, limits.time / 5)  # for what does not look at the clock
        pool = monty.Monty(
            binary_path=launcher(limits),
            min_processes=0,
            max_processes=1,
            checkout_timeout=30,
            request_timeout=limits.time + 2 * grace,
            feed_duration_limit_grace=grace,
        )
        session = self._held.enter_context(pool).checkout(
            limits={
                "max_feed_duration_secs": limits.time,
                "max_memory": limits.memory,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": limits.suspensions,
            },
            type_check=True,
            type_check_stubs=_stubs(program),
            type_check_format="concise",
            assert_message_annotations=False,
            os_policy={
                "datetime": datetime.fromtimestamp(program.now, UTC),
                "sleep": "call_host",
                "random_start": {"seed": program.seed},
            },
        )
        self._held.enter_context(session)
        pid = session.worker_pid
        with self._killing:
            if pid is not None:
                self._process = os.pidfd_open(pid)
        if self._killed:
            self.kill()  # it was asked for before there was a process
        return session

    def _feed(self, session: monty.MontySession, *, checked: bool) -> monty.SyncSnapshot:
        """Run the script to where it first stops, with its types checked or not."""
        snapshot = session.feed_start(
            self._program.source,
            inputs=dict(self._program.inputs),
            print_callback=self._printed,
            skip_type_check=checked,
        )
        while isinstance(snapshot, monty.FunctionSnapshot) and snapshot.is_os_function:
            snapshot = _outside(snapshot)  # also what the type check asks for
        return snapshot

    def _advance(self) -> Blocked | Finished:
        """Answer all that needs no outcome, until the script is blocked or has ended."""
        made: list[MadeCall] = []
        while True:
            match self._snapshot:
                case monty.MontyComplete() as complete:
                    return Finished(_value_of(complete), tuple(made))
                case monty.FutureSnapshot() as waiting:
                    pending = frozenset(self._numbers[call] for call in waiting.pending_call_ids)
                    return Blocked(tuple(made), pending)
                case monty.NameLookupSnapshot() as lookup:
                    function = self._program.functions.get(lookup.variable_name)
                    self._snapshot = lookup.resume() if function is None else lookup.resume(value=_named(function))
                case monty.FunctionSnapshot() as called if called.is_os_function:
                    self._snapshot = _outside(called)
                case monty.FunctionSnapshot() as called:
                    self._snapshot = self._call(called, made)

    def _call(self, called: monty.FunctionSnapshot, made: list[MadeCall]) -> monty.SyncSnapshot:
        name = str(called.function_name).removeprefix(_FUNCTION).removesuffix(">")
        function = self._program.functions.get(name)
        if function is None:
            return called.resume({"exc_type": "NameError", "message": f"name {name!r} is not defined"})
        try:
            given = plain(as_data(function.input_of(called.args, called.kwargs)))
        except TypeError as error:
            return called.resume({"exc_type": "TypeError", "message": str(error)})
        except NotJsonError as error:
            return called.resume({"exc_type": "RuntimeError", "message": f"input_invalid: {name}(): {error}"})
        number = len(self._numbers)
        self._numbers[called.call_id] = number
        self._ids[number] = called.call_id
        line = self._encoded.count(b"\n", 0, called.position.start) + 1
        made.append(MadeCall(number, name, given, line))
        return called.resume({"future": ...})

    def _fail(self, error: Exception) -> NoReturn:
        if self._killed:
            raise ScriptLimitError("The script was ended from outside.", limit="engine") from error
        raise translate(error, self._program) from error


def _value_of(complete: monty.MontyComplete) -> Any:
    try:
        return as_data(complete.output)
    except NotJsonError as error:
        raise ScriptValueError(error.issue) from error


def _stubs(program: Program) -> str:
    """Declare the tools and the inputs."""
    names = "".join(f"{name}: Any\n" for name in program.inputs)
    return f"{text_of(program.functions.values())}\n{DECLARATIONS}{program.declared}{names}"


def _result(answer: Answer) -> monty.ExternalSettledResult:
    if answer.error is None:
        return {"return_value": answer.value}
    return {"exc_type": "RuntimeError", "message": answer.error}


def _outside(called: monty.FunctionSnapshot) -> monty.SyncSnapshot:
    """Answer what would reach out of the script: nothing does."""
    if str(called.function_name) in ("time.sleep", "system.async_sleep", "asyncio.sleep"):
        return called.resume({"exc_type": "RuntimeError", "message": _NO_SLEEP})
    return called.resume_not_handled()


def _named(function: Function) -> Any:
    """Make what stands for a function in the script's hands: calling it comes back here by its name.

    Where it comes out as a value, the engine gives just this name, by which it is seen to be no data.
    """

    async def called() -> None: ...

    called.__name__ = f"{_FUNCTION}{function.name}>"
    return called
