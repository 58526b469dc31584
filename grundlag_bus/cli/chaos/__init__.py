"""The `chaos` command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, LedgerUrl, Url, log_level


def chaos(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    *,
    url: Url = None,
    seconds: Annotated[float, typer.Option(min=5, help="How long to call, under faults.")] = 60.0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Repeat the calls and faults of a run that printed it.", show_default=False),
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=10_000, help="Calls a second.")] = 200.0,
    ledger: LedgerUrl = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report there too, as an HTML page.", show_default=False),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep there what every process wrote: histories and logs. It must be empty.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show on a broker of yours that no call is lost while processes die and connections break.

    It calls actions of its own in a namespace of its own, kills and stops its own workers and callers, breaks its own
    connections, and then looks for what became of each call. What else is on the broker is left alone; faults that
    need control of the broker itself are left out, and listed.

    Without --ledger, few calls are recorded, in a SQLite file of the run. A ledger that is given is for one run
    at a time; in the end the records of provider `chaosKept` are removed from it.

    Exit codes: 0 every promise was kept, 1 one was broken, 2 usage, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.chaos.raging import ChaosOptions, rage  # noqa: PLC0415  loaded when it runs

    options = ChaosOptions(
        seconds=seconds, seed=seed, rate=rate, ledger=ledger, report=report, folder=folder, as_json=as_json
    )
    return rage(url, options, level=log_level(ctx, "error"))
