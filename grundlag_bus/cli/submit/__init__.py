"""`submit`: send a call and do not wait for its end."""

from __future__ import annotations

from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, Namespace, Timeout, Url, choose_source, log_level


def submit(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="The function name, as `tools` lists it.")],
    text: Annotated[
        str, typer.Argument(metavar="[JSON]", help="The input; - reads it from stdin.", show_default=False)
    ] = "{}",
    *,
    delay: Annotated[float, typer.Option("--delay", min=0, help="Seconds until it is started, 12 days at most.")] = 0,
    url: Url = None,
    namespace: Namespace = "grundlag",
    user: Annotated[str | None, typer.Option("--user", help="On whose behalf.", show_default=False)] = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Send a call, to be started now or later by whichever worker is up then, and print its id; nobody gets its reply.

    Exit codes: 0 the broker has it, 1 it cannot be sent, 2 usage, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.submit.sending import send  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=None)
    level = log_level(ctx, "warning")
    return send(source, function, text, delay=delay, user=user, timeout=timeout, as_json=as_json, level=level)
