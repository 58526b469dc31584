"""`workers`: who serves a namespace, and how each worker stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from grundlag_bus.cli.administration import address_of, administer, check_namespace
from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import Source
from grundlag_bus.transport import Topology
from grundlag_bus.workers.roll_call import roll_call
from grundlag_bus.workers.status import ready, status_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.workers.status import WorkerStatus


def list_workers(url: str | None, namespace: str, *, within: float, as_json: bool, level: str) -> int:
    """Ask all workers and print what they say. Raises ConfigurationError, BusUnreachableError."""
    address = address_of(url)

    async def work() -> int:
        async with administer(address) as administration:
            await check_namespace(administration, Topology(namespace))
        async with Source(address, namespace).open() as bus:
            assert bus.transport is not None  # noqa: S101  for mypy: a bus by its address has one
            found = await roll_call(bus.transport, within=within)
        if as_json:
            print_json([status_to_json(status) for status in found], one_line=True)
        elif found:
            console().print(_table(found))
        else:
            told = f"no worker of namespace {namespace!r} answered within {within:g} s"
            say(f"{told}: start one with `grundlag-bus worker`.")
        return Exit.COMPLETED if found else Exit.FAILED

    return run(work(), level=level)


def _table(statuses: Iterable[WorkerStatus]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("worker", style="bold cyan", no_wrap=True)
    for column in ("providers", "lanes"):
        table.add_column(column, overflow="fold")
    table.add_column("running", justify="right")
    table.add_column("state", overflow="fold")
    for status in statuses:
        report = ready(status)
        table.add_row(
            *map(printable, (status.name, ", ".join(status.providers), ", ".join(status.lanes), str(status.in_flight))),
            "serving" if report.ok else "; ".join(report.reasons),
        )
    return table
