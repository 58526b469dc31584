"""What `script` does: runs a script, and asks on the terminal what its calls ask."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.call import read_input
from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import AnswerInvalidError, ConfigurationError, ScriptError, ToolInterrupt
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.tools import ItemStore, ToolContext

if TYPE_CHECKING:
    from grundlag_bus.cli.source import Source
    from grundlag_bus.sandbox.script import ScriptResult


def run_script(  # noqa: PLR0913  the command's options
    source: Source, file: str, inputs: str, *, user: str | None, timeout: float | None, as_json: bool, level: str
) -> int:
    """Run a script and print its value. Raises ConfigurationError, TransportError."""
    text = _read(file)
    values = read_input(inputs)
    if not isinstance(values, dict):
        raise ConfigurationError("""The inputs are no JSON object: give --inputs '{"name": "value"}'.""")

    async def work() -> int:
        async with source.open(within=timeout) as bus:
            sandbox = Sandbox(await bus.to_tools())
            context = ToolContext(user_id=user, timeout=timeout, items=ItemStore())
            try:
                result = await _converse(sandbox, text, values, context)
            except ScriptError as error:
                return _tell_error(error, as_json=as_json)
            except ToolInterrupt as interrupt:
                return _tell_unanswered(interrupt, as_json=as_json)
        return _tell_result(result, as_json=as_json)

    return run(work(), level=level)


def _read(file: str) -> str:
    if file != "-":
        data = Path(file).read_bytes()
    elif sys.stdin is None:
        raise ConfigurationError("The script is to come from stdin (-), which is closed: give a file.")
    else:
        data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"The script {file} is no text in UTF-8: save it as that.") from error


async def _converse(sandbox: Sandbox, text: str, inputs: dict[str, Any], context: ToolContext) -> ScriptResult:
    """Run the script, and go on with each answer, until it ends or nobody answers."""
    try:
        return await sandbox.run(text, inputs=inputs, context=context)
    except ToolInterrupt as interrupt:
        asked = interrupt
    while Terminal.is_there():
        answers = await _ask(asked)
        if answers is None:
            break
        try:
            return await sandbox.resume(asked, answers, context=context)
        except ToolInterrupt as interrupt:
            asked = interrupt
    raise asked


async def _ask(asked: ToolInterrupt) -> dict[str, Any] | None:
    """Ask what is pending, one after the other; None when the person ends the input."""
    terminal = Terminal()
    if isinstance(asked.__cause__, AnswerInvalidError):
        terminal.refuse(asked.__cause__.issues)
    answers = {}
    for one in asked.pending:
        terminal.show_question(one.message, one.data)
        try:
            answers[str(one.interrupt_id)] = await terminal.ask(one.answer_schema)
        except EOFError:
            return None
    return answers


def _tell_result(result: ScriptResult, *, as_json: bool) -> int:
    if as_json:
        calls = [call.to_json() for call in result.calls]
        told = {"status": "completed", "value": result.value, "stdout": result.stdout, "calls": calls}
        print_json(told, one_line=True)
    else:
        _tell_prints(result.stdout)
        print_json(result.value, one_line=False)
    return Exit.COMPLETED


def _tell_error(error: ScriptError, *, as_json: bool) -> int:
    calls = [call.to_json() for call in error.calls]
    if as_json:
        told = {"type": type(error).__name__, "message": error.message, "line": error.line, "source": error.source}
        told["signature"] = error.signature
        print_json({"status": "failed", "error": told, "stdout": error.stdout, "calls": calls}, one_line=True)
    else:
        _tell_prints(error.stdout)
        say(str(error))
        if calls:
            say(f"before that it called {', '.join(f'{call.function} ({call.status})' for call in error.calls)}.")
    return Exit.FAILED


def _tell_unanswered(interrupt: ToolInterrupt, *, as_json: bool) -> int:
    if as_json:
        print_json({"status": "interrupted", "pending": interrupt.data, "state": interrupt.state}, one_line=True)
    else:
        asked = " and ".join(f'"{one.message}"' for one in interrupt.pending)
        say(f"the script asks {asked} and nobody answered: run it on a terminal.")
    return Exit.UNANSWERED


def _tell_prints(stdout: str) -> None:
    if stdout:
        print(printable(stdout), end="" if stdout.endswith("\n") else "\n", file=sys.stderr)  # noqa: T201  a command line speaks
