"""The `run` commands and their options: one run, from its start to its end."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from grundlag_bus.cli.options import AsJson, Namespace, StoreUrl, Timeout, Url, log_level
from grundlag_bus.cli.runs.place import Place, choose_place, store_of

RunId: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="The run's id, as `runs` lists it.")]
User: TypeAlias = Annotated[str | None, typer.Option("--user", help="On whose behalf.", show_default=False)]
Answerer: TypeAlias = Annotated[
    str | None,
    typer.Option("--answerer", metavar="USER", help="Who answers what it asks; default: the user.", show_default=False),
]
Wait: TypeAlias = Annotated[
    bool,
    typer.Option("--wait", help="Stay until it has ended, and ask here what it asks; Ctrl-C leaves the run alone."),
]
WithoutLedger: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--without-ledger",
        help="Call providers whose workers have no ledger too, where a call may run twice when a host dies.",
    ),
]

run = typer.Typer(
    help="Runs: calls, scripts and agents that go on from where they were, whichever process ends.\n\n"
    "They are driven by `grundlag-bus host`, which may be started before or after, and as often as you like.",
    no_args_is_help=True,
)


@run.command("call")
def run_call(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="The function name, as `tools` lists it.")],
    text: Annotated[
        str, typer.Argument(metavar="[JSON]", help="The input; - reads it from stdin.", show_default=False)
    ] = "{}",
    *,
    wait: Wait = False,
    user: User = None,
    answerer: Answerer = None,
    timeout: Timeout = None,
    without_ledger: WithoutLedger = False,
    store: StoreUrl = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: AsJson = False,
) -> int:
    """Start a call as a run, and print the run's id.

    Exit codes with --wait: 0 completed, 1 failed, 2 usage, 3 asks and nobody answers here, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.runs.starting import Way, start_call  # noqa: PLC0415  loaded when it runs

    place = choose_place(store, url=url, namespace=namespace)
    level = log_level(ctx, "warning")
    way = Way(wait=wait, as_json=as_json, level=level, user=user, answerer=answerer, timeout=timeout)
    return start_call(place, function, text, way, without_ledger=without_ledger)


@run.command("script")
def run_script(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The script; - reads it from stdin.")],
    *,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="A name of the script; repeat it.", show_default=False),
    ] = None,
    wait: Wait = False,
    user: User = None,
    answerer: Answerer = None,
    timeout: Timeout = None,
    store: StoreUrl = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: AsJson = False,
) -> int:
    """Start a script as a run, and print the run's id.

    Exit codes with --wait: 0 completed, 1 failed, 2 usage, 3 asks and nobody answers here, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.runs.starting import Way, start_script  # noqa: PLC0415  loaded when it runs

    place = choose_place(store, url=url, namespace=namespace)
    level = log_level(ctx, "warning")
    way = Way(wait=wait, as_json=as_json, level=level, user=user, answerer=answerer, timeout=timeout)
    return start_script(place, file, inputs or (), way)


@run.command("agent")
def run_agent(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent is to do; - reads it from stdin.")],
    *,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="FUNCTION", help="It may call this one; repeat it. Default: all.", show_default=False
        ),
    ] = None,
    instructions: Annotated[
        str | None, typer.Option("--instructions", metavar="TEXT", help="For the model.", show_default=False)
    ] = None,
    wait: Wait = False,
    user: User = None,
    answerer: Answerer = None,
    store: StoreUrl = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: AsJson = False,
) -> int:
    """Start an agent as a run, and print the run's id. A host with --model drives it.

    Exit codes with --wait: 0 completed, 1 failed, 2 usage, 3 asks and nobody answers here, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.runs.starting import Way, start_agent  # noqa: PLC0415  loaded when it runs

    place = choose_place(store, url=url, namespace=namespace)
    way = Way(wait=wait, as_json=as_json, level=log_level(ctx, "warning"), user=user, answerer=answerer)
    return start_agent(place, prompt, way, tools=tools, instructions=instructions)


@run.command("show")
def run_show(
    ctx: typer.Context,
    run_id: RunId,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until it has ended; with --json, a line for each thing.")
    ] = False,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> int:
    """Show a run: what it calls, how that ended, what was asked, and who answered, with the times."""
    from grundlag_bus.cli.runs.listing import show_run  # noqa: PLC0415  loaded when it runs

    level = log_level(ctx, "warning")
    return show_run(Place(store_of(store)), run_id, follow=follow, as_json=as_json, level=level)


@run.command("retry")
def run_retry(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    run_id: RunId,
    *,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="FILE", help="The script as it is now.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which results count again.")] = False,
    wait: Wait = False,
    user: Annotated[
        str | None, typer.Option("--by", metavar="USER", help="With --wait: who answers here.", show_default=False)
    ] = None,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> int:
    """Start a run again that failed or was cancelled, and print the new one's id.

    What a call gave counts again where the new run makes the same call: it is shown first, and not called.
    """
    from grundlag_bus.cli.runs.starting import Way, retry_run  # noqa: PLC0415  loaded when it runs

    way = Way(wait=wait, as_json=as_json, level=log_level(ctx, "warning"), user=user)
    return retry_run(Place(store_of(store)), run_id, source, way, dry_run=dry_run)


@run.command("cancel")
def run_cancel(ctx: typer.Context, run_id: RunId, *, store: StoreUrl = None) -> int:
    """End a run: what it calls is cancelled, and what it asks is void."""
    from grundlag_bus.cli.runs.starting import cancel_run  # noqa: PLC0415  loaded when it runs

    return cancel_run(Place(store_of(store)), run_id, level=log_level(ctx, "warning"))
