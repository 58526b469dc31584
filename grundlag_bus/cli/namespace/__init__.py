"""The `namespace` commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, Url, log_level

namespace = typer.Typer(help="A namespace as a whole.", no_args_is_help=True)


@namespace.callback()
def start() -> None:
    """Do something to a namespace as a whole."""  # a callback, so that a group of one command stays a group


@namespace.command("delete")
def delete_namespace(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The namespace.")],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also where calls or dead letters wait, or something consumes them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on the terminal.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Delete a namespace from the broker: its queues, streams and exchanges, with all that waits there.

    Found are the queues of every provider that was ever announced. Mailboxes expire by themselves in 5 minutes.

    Stop its workers first: one that still runs declares what it needs again.
    """
    from grundlag_bus.cli.namespace.deleting import delete  # noqa: PLC0415  loaded when it runs

    level = log_level(ctx, "warning")
    return delete(url, name, force=force, yes=yes, dry_run=dry_run, as_json=as_json, level=level)
