"""The errors of pydantic-monty as errors of a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic_monty as monty

from grundlag_bus.errors import ScriptError, ScriptFailedError, ScriptInvalidError, ScriptLimitError
from grundlag_bus.sandbox.script.complaints import line_of, signatures, type_error
from grundlag_bus.sandbox.script.engine_prelude import PRELUDE_FILE

if TYPE_CHECKING:
    from grundlag_bus.sandbox.script.engine import Program

_TOLD = 4000
"""Characters of what a script raised that its author is told."""
_NOT_SUPPORTED = "The monty syntax parser does not yet support "


def translate(error: Exception, program: Program) -> ScriptError:
    """Say what became of the script."""
    if isinstance(error, monty.MontyTypingError):
        return type_error(program.source, error.display(), program.functions)
    if isinstance(error, monty.MontySyntaxError):
        return _invalid(error, program, error.display("msg"))
    if isinstance(error, monty.MontyRuntimeError):
        told = error.display("type-msg")
        return _limit(error, told, program) or _raised(error, told, program)
    if isinstance(error, monty.MontyCrashedError):
        if error.timed_out:
            return _time(program)
        return ScriptLimitError(
            "The script broke the engine: it nests too deep, or takes too much at once. Make it simpler.",
            limit="engine",
        )
    return ScriptLimitError(f"The engine of scripts could not be started here: {error}", limit="engine")


def _limit(error: monty.MontyRuntimeError, told: str, program: Program) -> ScriptLimitError | None:
    limits = program.limits
    kind, _, message = told.partition(": ")
    if kind == "TimeoutError" and "time limit exceeded" in message:
        return _time(program, _line(error))
    if kind == "MemoryError":
        return _limited(error, program, "memory", f"The script's values take more than {limits.memory} bytes.")
    if kind == "RecursionError":
        return _limited(error, program, "recursion", f"Functions call each other more than {limits.recursion} deep.")
    if kind == "RuntimeError" and message.startswith("suspension limit"):
        text = f"The script stopped for tools and their outcomes more than {limits.suspensions} times."
        return _limited(error, program, "suspensions", text)
    return None


def _time(program: Program, line: int | None = None) -> ScriptLimitError:
    return ScriptLimitError(
        f"The script computed for more than {program.limits.time:g} s and has not ended: see whether its loops end.",
        limit="time",
        line=line,
        source=None if line is None else line_of(program.source, line),
    )


def _limited(error: monty.MontyRuntimeError, program: Program, limit: str, message: str) -> ScriptLimitError:
    line = _line(error)
    return ScriptLimitError(
        message, limit=limit, line=line, source=None if line is None else line_of(program.source, line)
    )


def _raised(error: monty.MontyRuntimeError, told: str, program: Program) -> ScriptError:
    kind, _, message = told.partition(": ")
    lines = _lines(error)
    if message.startswith(_NOT_SUPPORTED):
        return _invalid(error, program, f"The language of scripts has no {message.removeprefix(_NOT_SUPPORTED)}.")
    line = lines[-1] if lines else None
    return ScriptFailedError(
        told[:_TOLD],
        exception=kind,
        trace=lines,
        line=line,
        source=None if line is None else line_of(program.source, line),
        signature=signatures(program.source, lines, program.functions),
    )


def _invalid(
    error: monty.MontySyntaxError | monty.MontyRuntimeError, program: Program, message: str
) -> ScriptInvalidError:
    line = _line(error)
    return ScriptInvalidError(
        message,
        problems=[(line or 1, "invalid-syntax", message)],
        line=line,
        source=None if line is None else line_of(program.source, line),
    )


def _line(error: monty.MontySyntaxError | monty.MontyRuntimeError) -> int | None:
    lines = _lines(error)
    return lines[-1] if lines else None


def _lines(error: monty.MontySyntaxError | monty.MontyRuntimeError) -> list[int]:
    return [frame.line for frame in error.traceback() if frame.filename != PRELUDE_FILE]
