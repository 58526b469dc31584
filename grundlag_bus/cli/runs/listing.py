"""`runs`, `run show` and `inbox`: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.cli.running import run as run_work
from grundlag_bus.cli.runs.history import History, failure, head, print_value, waits, when
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from grundlag_bus.cli.runs.place import Place
    from grundlag_bus.durable import OpenInterrupt, Run, RunEntry, Runs
    from grundlag_bus.schema.run import Status

_SHOWN = 80


def list_runs(  # noqa: PLR0913  the command's options
    place: Place, *, user: str | None, status: Status | None, limit: int, as_json: bool, level: str
) -> int:
    """Print runs, the newest first. Raises ConfigurationError."""

    async def work() -> int:
        async with place.open() as runs:
            found = await runs.list(user_id=user, status=status, limit=limit)
        if as_json:
            print_json([each.to_json() for each in found], one_line=True)
        elif found:
            console().print(_runs(found))
        else:
            say(f"there are no runs{' that fit' if user or status else ''} in this store.")
        return Exit.COMPLETED

    return run_work(work(), level=level)


def list_questions(place: Place, *, user: str | None, limit: int, as_json: bool, level: str) -> int:
    """Print what waits for an answer, the oldest first. Raises ConfigurationError."""

    async def work() -> int:
        async with place.open() as runs:
            found = await runs.pending(user, limit=limit)
        if as_json:
            print_json([each.to_json() for each in found], one_line=True)
        elif found:
            console().print(_questions(found))
        else:
            say(f"nothing waits for an answer{'' if user is None else f' of {user}'}.")
        return Exit.COMPLETED

    return run_work(work(), level=level)


def show_run(place: Place, run_id: str, *, follow: bool, as_json: bool, level: str) -> int:
    """Print what a run is and what has happened in it. Raises ConfigurationError, RunUnknownError."""

    async def work() -> int:
        async with place.open() as runs:
            found = await runs.get(run_id)
            if as_json and not follow:
                entries = [entry.to_json() async for entry in _so_far(runs, run_id)]
                print_json({**found.to_json(), "entries": entries}, one_line=True)
                return Exit.COMPLETED
            if not as_json:
                _print_lines([*head(found), ""])
            told = History()
            async for entry in runs.events(run_id) if follow else _so_far(runs, run_id):
                if as_json:
                    print_json(entry.to_json(), one_line=True)
                else:
                    _print_lines(told.lines(entry))
            found = await runs.get(run_id)
            if as_json:
                print_json(found.to_json(), one_line=True)
            else:
                _print_end(found, await runs.pending(run_id=run_id))
        return Exit.COMPLETED

    return run_work(work(), level=level)


async def _so_far(runs: Runs, run_id: str) -> AsyncIterator[RunEntry]:
    after = 0
    while entries := await runs.entries(run_id, after=after):
        for entry in entries:
            yield entry
        after = entries[-1].position


def _print_end(run: Run, asked: Iterable[OpenInterrupt]) -> None:
    if run.status == "completed":
        _print_lines([""])
        print_value(run)
    elif run.ended:
        say(failure(run))
    for each in asked:
        say(waits(each))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line), flush=True)  # noqa: T201  a command line speaks


def _runs(found: Iterable[Run]) -> Table:
    table = _table("started", "run", "kind", "status", "user", "what")
    for each in found:
        _add(table, when(each.created_at), each.run_id, each.kind, each.status, each.user_id or "", each.name)
    return table


def _questions(found: Iterable[OpenInterrupt]) -> Table:
    table = _table("asked", "id", "who answers", "function", "question")
    for each in found:
        _add(table, when(each.asked_at), each.interrupt_id, each.answerer or "anybody", each.function, each.message)
    return table


def _table(first: str, id: str, *rest: str) -> Table:  # noqa: A002  the word
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    table.add_column(id, style="bold cyan", no_wrap=True)
    for column in rest:
        table.add_column(column, overflow="fold")
    return table


def _add(table: Table, *cells: Any) -> None:
    table.add_row(*(printable(short(str(cell), _SHOWN)) for cell in cells))
