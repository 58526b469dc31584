"""`dead list` and `dead show`."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from grundlag_bus.cli.administration import address_of, administer
from grundlag_bus.cli.dead.letters import find
from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.summary import in_json
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.schema.refusal import short
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Collection

    from grundlag_bus.cli.dead.filters import Filters
    from grundlag_bus.schema.dead_letter import Letter

_SHORTEST_ID = 8
_REASON = 200
"""Characters of a reason in the table."""
_WIDE = 110
"""Columns from which on a letter has one line in the table."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What the table needs of a letter, which itself is not kept."""

    id: str
    cells: tuple[str, str, str, str]
    reason: str


def print_list(url: str | None, namespace: str, filters: Filters, *, as_json: bool, level: str) -> int:
    """Print the letters as a table, or each as a line of JSON. Raises ConfigurationError, TransportError."""
    address, topology = address_of(url), Topology(namespace)

    async def work() -> int:
        rows: list[_Row] = []
        async with administer(address) as bus, aclosing(find(bus, topology, filters)) as letters:
            async for found in letters:
                if as_json:
                    print_json(found.letter.to_json(), one_line=True)
                else:
                    rows.append(_row(found.letter))
        if rows:
            out = console()
            out.print(_table(rows, out.width))
        elif not as_json:
            say(f"no dead letters{_which(filters)} in namespace {namespace!r}.")
        return Exit.COMPLETED

    return run(work(), level=level)


def print_letter(url: str | None, namespace: str, filters: Filters, *, as_json: bool, level: str) -> int:
    """Print the letters of one id. Raises ConfigurationError, TransportError."""
    address, topology = address_of(url), Topology(namespace)

    async def work() -> int:
        async with administer(address) as bus, aclosing(find(bus, topology, filters)) as letters:
            async for found in letters:
                if as_json:
                    print_json(found.letter.to_json(), one_line=True)
                else:
                    _print(found.letter)
        return Exit.COMPLETED

    return run(work(), level=level)


def _which(filters: Filters) -> str:
    if filters.takes_all:
        return ""
    return " that fit" if filters.code is None else f" with code {filters.code!r}{_others(filters)}"


def _others(filters: Filters) -> str:
    return "" if replace(filters, code=None).takes_all else " that fit"


def when(letter: Letter) -> str:
    """Tell when it died, in UTC to the second."""
    return "?" if letter.died_at is None else f"{instant_to_datetime(letter.died_at):%Y-%m-%d %H:%M:%S}Z"


def name_of(letter: Letter) -> str:
    """Name the action that was called."""
    return "?" if letter.call is None else printable(f"{letter.call.provider_id}.{letter.call.action_id}")


def _row(letter: Letter) -> _Row:
    starts = "?" if letter.starts is None else str(letter.starts)
    cells = (when(letter), name_of(letter), printable(short(letter.reason.code)), starts)
    return _Row(letter.id, cells, printable(short(letter.reason.message, _REASON)))


def _table(rows: list[_Row], width: int) -> Table:
    wide = width >= _WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=wide)
    table.add_column("died", no_wrap=True)
    table.add_column("id", style="bold cyan", no_wrap=True)
    for column in ("call", "code", "starts"):
        table.add_column(column, overflow="fold", justify="right" if column == "starts" else "left")
    table.add_column("reason", no_wrap=wide, overflow="ellipsis" if wide else "fold", ratio=1 if wide else None)
    length = _id_length({row.id for row in rows})
    for row in rows:
        died, *cells = row.cells
        table.add_row(died, row.id[:length], *cells, row.reason if wide else short(row.reason, _WIDE // 2))
    return table


def _id_length(ids: Collection[str]) -> int:
    """Return how many characters tell these ids apart."""
    length = _SHORTEST_ID
    while len({id[:length] for id in ids}) < len(ids):  # noqa: A001  the word
        length += 1
    return length


def _print(letter: Letter) -> None:
    reason, call = letter.reason, letter.call
    told = [("id", letter.id), ("died", when(letter) + (f", given up by {letter.worker}" if letter.worker else ""))]
    if call is not None:
        user = "" if call.user_id is None else f" for {call.user_id}"
        # A call that was lost more often than that was lost unstarted too, which nobody can tell apart afterwards.
        most = " at most" if isinstance(reason.details, dict) and "lost" in reason.details else ""
        told.append(("call", f"{name_of(letter)} in lane {call.lane}{user}, started {letter.starts} times{most}"))
    told += [("code", reason.code), ("reason", reason.message)]
    if reason.details is not None:
        told.append(("details", in_json(reason.details)))
    out = console()
    for name, text in told:
        out.print(Text(f"{name:<9}", style="bold") + Text(printable(text), style="not bold"), soft_wrap=True)
    data = letter.to_json()
    if call is not None:
        print_json(data["call"], one_line=False)
    else:
        out.print(printable(data["body"]), soft_wrap=True)
