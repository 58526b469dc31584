"""What `script` does: runs a script, and asks on the terminal what its calls ask."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.script.beginning import Fresh, Waiting
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import (
    AnswerInvalidError,
    ConfigurationError,
    InterruptUnknownError,
    ScriptError,
    ToolInterrupt,
)
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.tools import ItemStore, ToolContext

if TYPE_CHECKING:
    from grundlag_bus.cli.source import Source
    from grundlag_bus.sandbox.script import ScriptResult


def run_script(  # noqa: PLR0913  the command's options
    source: Source, begin: Fresh | Waiting, *, user: str | None, timeout: float | None, as_json: bool, level: str
) -> int:
    """Run a script and print its value. Raises ConfigurationError, TransportError."""

    async def work() -> int:
        async with source.open(within=timeout) as bus:
            sandbox = Sandbox(await bus.to_tools())
            context = ToolContext(user_id=user, timeout=timeout, items=ItemStore())
            prints = Prints()
            try:
                result = await _converse(sandbox, begin, context, prints)
            except ScriptError as error:
                return _tell_error(error, prints, as_json=as_json)
            except ToolInterrupt as interrupt:
                return _tell_unanswered(interrupt, prints, as_json=as_json)
        return _tell_result(result, prints, as_json=as_json)

    return run(work(), level=level)


class Prints:
    """Shows on stderr what a script has printed, each line once, though a script that goes on tells all of it."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, stdout: str) -> None:
        """Show what is new in all that was printed so far."""
        new = stdout.removeprefix(self._shown) if stdout.startswith(self._shown) else stdout.splitlines()[-1]
        self._shown = stdout
        if new:
            print(printable(new), end="" if new.endswith("\n") else "\n", file=sys.stderr, flush=True)  # noqa: T201  a command line speaks


async def _converse(sandbox: Sandbox, begin: Fresh | Waiting, context: ToolContext, prints: Prints) -> ScriptResult:
    """Run the script, and go on with each answer, until it ends or nobody answers."""
    try:
        return await _first(sandbox, begin, context)
    except ToolInterrupt as interrupt:
        asked = interrupt
    while Terminal.is_there():
        prints.show(asked.stdout)
        answers = await _ask(asked)
        if answers is None:
            break
        try:
            return await sandbox.resume(asked, answers, context=context)
        except ToolInterrupt as interrupt:
            asked = interrupt
    raise asked


async def _first(sandbox: Sandbox, begin: Fresh | Waiting, context: ToolContext) -> ScriptResult:
    """Do what can be done without asking. Raises ConfigurationError for answers that do not fit."""
    if isinstance(begin, Fresh):
        return await sandbox.run(begin.text, inputs=begin.inputs, context=context)
    if not begin.answers:
        raise begin.asked
    try:
        return await sandbox.resume(begin.asked, begin.answers, context=context)
    except (AnswerInvalidError, InterruptUnknownError) as error:
        raise ConfigurationError(str(error)) from error


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


def _tell_result(result: ScriptResult, prints: Prints, *, as_json: bool) -> int:
    if as_json:
        calls = [call.to_json() for call in result.calls]
        told = {"status": "completed", "value": result.value, "stdout": result.stdout, "calls": calls}
        print_json(told, one_line=True)
    else:
        prints.show(result.stdout)
        print_json(result.value, one_line=False)
    return Exit.COMPLETED


def _tell_error(error: ScriptError, prints: Prints, *, as_json: bool) -> int:
    calls = [call.to_json() for call in error.calls]
    if as_json:
        told = {"type": type(error).__name__, "message": error.message, "line": error.line, "source": error.source}
        told["signature"] = error.signature
        print_json({"status": "failed", "error": told, "stdout": error.stdout, "calls": calls}, one_line=True)
    else:
        prints.show(error.stdout)
        say(str(error))
        if calls:
            say(f"before that it called {', '.join(f'{call.function} ({call.status})' for call in error.calls)}.")
    return Exit.FAILED


def _tell_unanswered(interrupt: ToolInterrupt, prints: Prints, *, as_json: bool) -> int:
    """Tell what is asked, and how to go on; an answer that the action itself refused comes first."""
    refused = interrupt.__cause__.issues if isinstance(interrupt.__cause__, AnswerInvalidError) else []
    if as_json:
        told = {"status": "interrupted", "pending": interrupt.data, "stdout": interrupt.stdout}
        told |= {"refused": [issue.to_json() for issue in refused]} if refused else {}
        print_json({**told, "state": interrupt.state}, one_line=True)
    else:
        prints.show(interrupt.stdout)
        for issue in refused:
            say(f"the answer is not valid: {issue}")
        asked = " and ".join(f'"{one.message}"' for one in interrupt.pending)
        say(
            f"the script asks {asked} and nobody answered: run it on a terminal, or with --json, and go on with what "
            "that prints by --state and --answer."
        )
    return Exit.UNANSWERED
