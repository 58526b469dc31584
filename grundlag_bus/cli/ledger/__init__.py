"""The `ledger` commands and their options: what is recorded of calls. They need no bus."""

from __future__ import annotations

from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, LedgerUrl, log_level

ledger = typer.Typer(
    help="What workers record of calls: show one, count all, remove old ones. Asks the database alone, and no bus.",
    no_args_is_help=True,
)


@ledger.command("show")
def show_call(
    ctx: typer.Context,
    call_id: Annotated[str, typer.Argument(metavar="CALL_ID", help="The call's id, as `submit` prints it.")],
    *,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> int:
    """Show everything that is recorded of a call.

    Exit codes: 0 it is known, 1 it is not or the database is away, 2 usage, or no ledger is there.
    """
    from grundlag_bus.cli.ledger.showing import show  # noqa: PLC0415  loaded when it runs

    return show(ledger, call_id, as_json=as_json, level=log_level(ctx, "warning"))


@ledger.command("stats")
def count_calls(ctx: typer.Context, *, ledger: LedgerUrl = None, as_json: AsJson = False) -> int:
    """Count what is recorded: calls by phase and age, leases, and the size of it all. Reads every call."""
    from grundlag_bus.cli.ledger.counting import count  # noqa: PLC0415  loaded when it runs

    return count(ledger, as_json=as_json, level=log_level(ctx, "warning"))


@ledger.command("prune")
def prune_calls(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Since it ended or last moved: 60d, 36h.")
    ] = "45d",
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Also what is younger than 43d: such a call runs again when it comes again."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    ledger: LedgerUrl = None,
    as_json: AsJson = False,
) -> int:
    """Remove old records. Workers do so by themselves after 45 days.

    For 43 days something may still ask for a record: an interrupt that is answered after 30, by a call that is delayed
    for 12. A call that is removed sooner is unknown, so that a late delivery or answer of it runs it once more, and one
    that was cancelled may start. Calls that have not ended are kept that long in any case, and those that run always.
    """
    from grundlag_bus.cli.ledger.pruning import prune_old  # noqa: PLC0415  loaded when it runs

    level = log_level(ctx, "warning")
    return prune_old(ledger, older_than, forget=forget, dry_run=dry_run, as_json=as_json, level=level)
