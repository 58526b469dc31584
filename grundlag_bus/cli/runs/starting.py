"""`run call`, `run script`, `run agent`, `run retry` and `run cancel`: what begins and ends runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.call import check_name, read_input
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run as run_work
from grundlag_bus.cli.runs.watching import stay
from grundlag_bus.cli.script.beginning import read_script
from grundlag_bus.cli.summary import in_json
from grundlag_bus.errors import ConfigurationError, NotJsonError, RunStateError
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.cli.runs.place import Place
    from grundlag_bus.durable import Run, RunEntry, Runs

_VALUE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a command goes on once a run is started.

    user: on whose behalf; answerer: who answers, where that is somebody else; timeout: of each call.
    """

    wait: bool
    as_json: bool
    level: str
    user: str | None = None
    answerer: str | None = None
    timeout: float | None = None

    async def go(self, runs: Runs, run: Run) -> int:
        """Tell the run's id, and stay with it where that is asked for."""
        if not self.wait:
            if self.as_json:
                print_json(run.to_json(), one_line=True)
            else:
                print(run.run_id)  # noqa: T201  a command line speaks
            return Exit.COMPLETED
        say(f"run {run.run_id} is started.")
        return await stay(runs, run.run_id, by=self.user, as_json=self.as_json)


def start_call(place: Place, function: str, text: str, way: Way, *, without_ledger: bool) -> int:
    """Start a call as a run. Raises ConfigurationError, TransportError, ActionInputValidationError."""
    value = read_input(text)

    async def work() -> int:
        async with place.open_with_bus(without_ledger=without_ledger) as (runs, bus):
            assert place.source is not None  # noqa: S101  for mypy: the command has asked for one
            await check_name(bus, function, place.source)
            started = await runs.start_call(
                function, value, user_id=way.user, answerer=way.answerer, timeout=way.timeout
            )
            return await way.go(runs, started)

    return run_work(work(), level=way.level)


def start_script(place: Place, file: str, inputs: Iterable[str], way: Way) -> int:
    """Start a script as a run. inputs: NAME=JSON each. Raises ConfigurationError, TransportError."""
    given = dict(map(_input, inputs))
    source = read_script(file)

    async def work() -> int:
        async with place.open() as runs:
            started = await runs.start_script(
                source, inputs=given, user_id=way.user, answerer=way.answerer, timeout=way.timeout
            )
            return await way.go(runs, started)

    return run_work(work(), level=way.level)


def start_agent(place: Place, prompt: str, way: Way, *, tools: Iterable[str] | None, instructions: str | None) -> int:
    """Start an agent as a run. Raises ConfigurationError, TransportError."""
    text = read_script(prompt) if prompt == "-" else prompt

    async def work() -> int:
        async with place.open() as runs:
            started = await runs.start_agent(
                text, instructions=instructions, tools=tools, user_id=way.user, answerer=way.answerer
            )
            return await way.go(runs, started)

    return run_work(work(), level=way.level)


def retry_run(place: Place, run_id: str, source: str | None, way: Way, *, dry_run: bool) -> int:
    """Start a run again that failed or was cancelled, and show which results count again.

    Raises ConfigurationError, RunUnknownError, RunStateError.
    """
    text = None if source is None else read_script(source)

    async def work() -> int:
        async with place.open() as runs:
            if (await runs.get(run_id)).status not in ("failed", "cancelled"):
                await runs.retry(run_id)  # says why not
            entries: list[RunEntry] = []
            while new := await runs.entries(run_id, after=entries[-1].position if entries else 0):
                entries += new
            for line in results(entries):
                say(f"this counts again where the same is called: {line}")
            if dry_run:
                return Exit.COMPLETED
            return await way.go(runs, await runs.retry(run_id, source=text))

    return run_work(work(), level=way.level)


def cancel_run(place: Place, run_id: str, *, level: str) -> int:
    """Ask for a run's end. Raises ConfigurationError, RunUnknownError, RunStateError."""

    async def work() -> int:
        async with place.open() as runs:
            before = await runs.get(run_id)
            if before.ended:
                raise RunStateError(f"The run {run_id!r} has ended before: it is {before.status}.")
            await runs.cancel(run_id)
        say(f"the run {run_id} is to end: its host cancels what it calls, and `run show` tells when that is done.")
        return Exit.COMPLETED

    return run_work(work(), level=level)


def results(entries: Iterable[RunEntry]) -> list[str]:
    """List what completed in a run, in the order in which it was called."""
    calls: dict[int, str] = {}
    done: dict[int, str] = {}
    for entry in entries:
        data = entry.entry
        if entry.kind in ("called", "edited"):
            function = data.get("function") or calls[data["call"]].partition(" ")[0]
            calls[data["call"]] = f"{function} {short(in_json(data['input']), _VALUE)}"
        elif entry.kind == "settled" and data["outcome"]["status"] == "completed":
            done[data["call"]] = f"{calls[data['call']]} = {short(in_json(data['outcome']['value']), _VALUE)}"
    return [done[number] for number in sorted(done)]


def _input(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, parse(value)
    except NotJsonError as error:
        raise ConfigurationError(
            f"--input {text[:60]!r} is no NAME=JSON ({error.issue.message}): write --input 'day=\"2026-12-01\"' or "
            "--input limit=3."
        ) from error
