"""The `dead` commands and their options: what an operator does about calls that could not be done."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from grundlag_bus.cli.dead.filters import choose
from grundlag_bus.cli.options import AsJson, Namespace, Url, log_level

Ids: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Letters by their id; a part from its start suffices.", show_default=False),
]
Provider: TypeAlias = Annotated[
    str | None, typer.Option("--provider", metavar="ID", help="Calls of this provider.", show_default=False)
]
Action: TypeAlias = Annotated[
    str | None,
    typer.Option("--action", metavar="ID", help="Calls of this action; provider.action too.", show_default=False),
]
Code: TypeAlias = Annotated[
    str | None, typer.Option("--code", help="Letters with this code, as `list` shows it.", show_default=False)
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Died since then: 2h (ago), or RFC 3339.", show_default=False),
]
Until: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Died before then: 2h (ago), or RFC 3339.", show_default=False),
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", min=1, help="No more than so many, the oldest first.", show_default=False)
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="Every letter, where neither ID nor filter is given.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Lines: TypeAlias = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each letter on stdout.")]

dead = typer.Typer(
    help="Calls that could not be done: list, show, redrive and drop them.\n\n"
    "While a command runs it holds the letters that it looks at, and another one does not see them; whatever it leaves "
    "is there again when it ends.",
    no_args_is_help=True,
)


@dead.command("list")
def list_letters(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    ids: Ids = None,
    *,
    provider: Provider = None,
    action: Action = None,
    code: Code = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: Lines = False,
) -> int:
    """List dead letters, the oldest first: when, what, why.

    Letters that another command holds in this moment are not listed.
    """
    from grundlag_bus.cli.dead.showing import print_list  # noqa: PLC0415  loaded when it runs

    chosen = choose(ids, provider=provider, action=action, code=code, since=since, until=until, limit=limit)
    return print_list(url, namespace, chosen, as_json=as_json, level=log_level(ctx, "warning"))


@dead.command("show")
def show_letter(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id; a part from its start suffices.")],  # noqa: A002  the word
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: AsJson = False,
) -> int:
    """Show one dead letter whole: the reason, and the call as it was sent."""
    from grundlag_bus.cli.dead.showing import print_letter  # noqa: PLC0415  loaded when it runs

    return print_letter(url, namespace, choose([id]), as_json=as_json, level=log_level(ctx, "warning"))


@dead.command("redrive")
def redrive_letters(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    ids: Ids = None,
    *,
    provider: Provider = None,
    action: Action = None,
    code: Code = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    every: All = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0.001, help="Seconds until its deadline; default: as long as it had."),
    ] = None,
    dry_run: DryRun = False,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: Lines = False,
) -> int:
    """Send calls to their workers again, and remove their letters.

    A call keeps its id, so that an effect that ctx.call_id guards is not repeated, and its deferred state.

    Attempts, crash budget and deadline begin anew. Nobody waits for the reply any more.

    A call that dies again is a dead letter again. One that its caller cancelled within a day is kept.

    A letter is removed when the broker has its call; one that cannot be sent is kept, and the exit code is 1.

    Ctrl-C ends it between two calls, a lost connection at once: then one call at most is both sent and kept.

    Letters that another command holds are not seen.
    """
    from grundlag_bus.cli.dead.redriving import redrive  # noqa: PLC0415  loaded when it runs

    chosen = choose(
        ids, provider=provider, action=action, code=code, since=since, until=until, limit=limit, every=every
    )
    level = log_level(ctx, "warning")
    return redrive(url, namespace, chosen, timeout=timeout, dry_run=dry_run, as_json=as_json, level=level)


@dead.command("drop")
def drop_letters(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    ids: Ids = None,
    *,
    provider: Provider = None,
    action: Action = None,
    code: Code = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on the terminal.")] = False,
    dry_run: DryRun = False,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: Lines = False,
) -> int:
    """Remove dead letters for good, after a question on the terminal.

    Letters that another command holds are not seen.
    """
    from grundlag_bus.cli.dead.dropping import drop  # noqa: PLC0415  loaded when it runs

    chosen = choose(
        ids, provider=provider, action=action, code=code, since=since, until=until, limit=limit, every=every
    )
    return drop(url, namespace, chosen, yes=yes, dry_run=dry_run, as_json=as_json, level=log_level(ctx, "warning"))
