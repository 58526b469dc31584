"""Stays with a run to its end, asks on the terminal what it asks, and tells how it ended."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.runs.history import failure, print_value, waits
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import AnswerConflictError, AnswerInvalidError, InterruptExpiredError, RunStateError

if TYPE_CHECKING:
    from grundlag_bus.durable import OpenInterrupt, Run, RunEntry, Runs

_LOOK = 1.0
_SILENT = 5.0
"""Seconds without anything new, after which is said what may be missing."""


async def stay(runs: Runs, run_id: str, *, by: str | None, as_json: bool) -> int:
    """Stay with a run to its end, or until nobody can be asked here, and tell how it stands. by: who answers here."""
    try:
        run = await _until_ended(runs, run_id, by)
    except asyncio.CancelledError:
        say(f"the run goes on without this: `grundlag-bus run show {run_id} --follow` shows it.")
        raise
    asked = () if run.ended else await runs.pending(run_id=run_id)
    if as_json:
        pending = {} if run.ended else {"pending": [each.to_json() for each in asked]}
        print_json({**run.to_json(), **pending}, one_line=True)
    else:
        _tell(run, asked)
    if run.ended:
        return Exit.COMPLETED if run.status == "completed" else Exit.FAILED
    return Exit.UNANSWERED


async def ask(runs: Runs, asked: OpenInterrupt, *, by: str | None) -> bool:
    """Ask on the terminal until the answer fits, and give it; False: the person ended the input.

    Raises what `Runs.answer` raises of a question that cannot be answered any more.
    """
    terminal = Terminal()
    terminal.show_question(asked.message, asked.data)
    while True:
        try:
            answer = await terminal.ask(asked.answer_schema)
        except EOFError:
            return False
        try:
            await runs.answer(asked.interrupt_id, answer, by=by)
        except AnswerInvalidError as error:
            terminal.refuse(error.issues)
        else:
            return True


async def _until_ended(runs: Runs, run_id: str, by: str | None) -> Run:
    silence = _Silence(runs, run_id)
    while True:
        run = await runs.wait(run_id, timeout=_LOOK, for_people=True)
        if run.ended or (run.status == "waiting" and not await _answer_all(runs, run_id, by)):
            return run
        await silence.notice()


async def _answer_all(runs: Runs, run_id: str, by: str | None) -> bool:
    """Ask what the run asks, one after the other; False: nobody here answers it."""
    asked = await runs.pending(run_id=run_id)
    mine = [each for each in asked if each.answerer in (None, by)]
    if not Terminal.is_there() or (asked and not mine):
        return False
    for each in mine:
        try:
            if not await ask(runs, each, by=by):
                return False
        except InterruptExpiredError as error:
            say(str(error))
            return False
        except (AnswerConflictError, RunStateError) as error:
            say(str(error))  # somebody else did meanwhile
    return True


class _Silence:
    """Notices that nobody goes on with a run, and says so once."""

    def __init__(self, runs: Runs, run_id: str) -> None:
        self._runs = runs
        self._run_id = run_id
        self._last: RunEntry | None = None
        self._since = asyncio.get_running_loop().time()
        self._told = False

    async def notice(self) -> None:
        now = asyncio.get_running_loop().time()
        while new := await self._runs.entries(self._run_id, after=0 if self._last is None else self._last.position):
            self._last, self._since, self._told = new[-1], now, False
        if self._last is None or self._told or now - self._since < _SILENT:
            return
        told = missing(self._last)
        if told is not None:
            say(told)
            self._told = True


def missing(last: RunEntry) -> str | None:
    """Say what may be missing where a run has nothing after this entry for some time."""
    if last.kind == "run.started":
        return "no host has begun with the run: start one with `grundlag-bus host`, on the same store and namespace."
    if last.kind == "prompted":
        return "no host has begun with the run: start one with `grundlag-bus host --model VENDOR:NAME`."
    if last.kind in ("answered", "edited") or (last.kind == "settled" and "interruptId" in last.entry):
        return "nothing has happened since that was answered: is a `grundlag-bus host` running, and a worker?"
    if last.kind == "called":
        return f"{last.entry['function']} is under way, or waits for a worker."
    return None


def _tell(run: Run, asked: tuple[OpenInterrupt, ...]) -> None:
    if not run.ended:
        for each in asked:
            say(waits(each))
        return
    if run.stdout:
        print(printable(run.stdout), end="" if run.stdout.endswith("\n") else "\n", file=sys.stderr, flush=True)  # noqa: T201  a command line speaks
    if run.status == "completed":
        print_value(run)
    else:
        say(failure(run))
