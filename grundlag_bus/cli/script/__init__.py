"""`script`: run a script that calls tools."""

from __future__ import annotations

from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, Namespace, Registry, Timeout, UrlOrHost, choose_source, log_level


def script(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="The script; - reads it from stdin.", show_default=False)
    ] = None,
    *,
    inputs: Annotated[
        str | None,
        typer.Option(
            "--inputs", metavar="JSON", help="An object: its fields are names of the script.", show_default=False
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Go on with a script that asked: what --json printed of it; - reads it from stdin.",
            show_default=False,
        ),
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="ID=JSON",
            help="With --state: the answer to the question of this interruptId; repeat it for several.",
            show_default=False,
        ),
    ] = None,
    url: UrlOrHost = None,
    namespace: Namespace = "grundlag",
    registry: Registry = None,
    user: Annotated[str | None, typer.Option("--user", help="On whose behalf.", show_default=False)] = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Run a script in the sandbox and print its value; asks on the terminal what its calls ask. Prints go to stderr.

    Exit codes: 0 completed, 1 failed, 2 usage, 3 interrupted and nobody can be asked, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.script.beginning import beginning  # noqa: PLC0415  loaded when it runs
    from grundlag_bus.cli.script.conversing import run_script  # noqa: PLC0415  the same

    source = choose_source(ctx, url=url, namespace=namespace, registry=registry)
    level = log_level(ctx, "warning")
    begin = beginning(file, inputs, state=state, answers=answers or ())
    return run_script(source, begin, user=user, timeout=timeout, as_json=as_json, level=level)
