"""`client generate`: a typed client of what is announced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grundlag_bus.cli.options import Namespace, Registry, UrlOrHost, choose_source, log_level

client = typer.Typer(help="Typed clients, written from the manifest.", no_args_is_help=True)


@client.command("generate")
def generate(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The Python module to write; - is stdout.")],
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="PROVIDER", help="This provider alone; repeat it for several.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the class; default: Client.", show_default=False)
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what has moved since FILE was written, and exit 1.")
    ] = False,
    url: UrlOrHost = None,
    namespace: Namespace = "grundlag",
    registry: Registry = None,
) -> int:
    """Write a module with a typed method for each action, for use with any bus.

    A client that is there is checked, and written anew, with the --provider and --name that it was written with.

    Exit codes: 0 written or up to date, 1 the manifest has moved (--check), 2 usage, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.client.generating import generate_client  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=registry)
    level = log_level(ctx, "warning")
    return generate_client(source, out, providers=provider or (), class_name=name, check=check, level=level)
