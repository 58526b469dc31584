"""`serve`: a bus or a registry over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grundlag_bus.cli.options import KeysFile, Namespace, StoreUrl, Url, choose_source, log_level
from grundlag_bus.errors import ConfigurationError

TOKENS, JWKS = "GRUNDLAG_TOKENS", "GRUNDLAG_JWKS"


def serve(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    registry: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:NAME]",
            help="A ProviderRegistry whose actions run in this process; or none, and the bus that --url names.",
            show_default=False,
        ),
    ] = None,
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Listen there; 0 takes any free port.")] = 8000,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; any but loopback needs authentication.")
    ] = "127.0.0.1",
    tokens: Annotated[
        Path | None,
        typer.Option(
            envvar=TOKENS,
            metavar="FILE",
            help="Who calls is known by its bearer token: lines of `TOKEN USER`, or JSON {token: user}.",
            show_default=False,
        ),
    ] = None,
    jwks: Annotated[
        str | None,
        typer.Option(
            envvar=JWKS,
            metavar="URL",
            help="Who calls is known by the `sub` of its signed JWT; the keys are there, or in a file.",
            show_default=False,
        ),
    ] = None,
    audience: Annotated[
        str | None, typer.Option(help="With --jwks: for whom a token must be.", show_default=False)
    ] = None,
    issuer: Annotated[str | None, typer.Option(help="With --jwks: whose a token must be.", show_default=False)] = None,
    allow: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Who may call what: JSON {"user": ["provider.action"]}, where * is any user, provider or action.',
            show_default=False,
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Let pages of this origin call; repeat it.", show_default=False),
    ] = None,
    store: StoreUrl = None,
    keys_file: KeysFile = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that running calls get when it stops.")] = 30.0,
) -> int:
    """Serve a bus or a registry over HTTP until SIGTERM or Ctrl-C; a second one does not wait for running calls.

    With --store, users start durable runs on a bus at /api/runs, which are driven here, and answer what those ask.
    """
    if registry is None and url is None:
        raise ConfigurationError(
            "Neither a bus nor a registry is given: name a registry as MODULE:NAME, or add "
            "--url amqp://user:password@host (or set GRUNDLAG_URL)."
        )
    try:
        from grundlag_bus.cli.serve.serving import ServeOptions, serve_over_http  # noqa: PLC0415  loaded when it runs
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "httptools", "jwt"):
            raise
        raise ConfigurationError(
            f"The HTTP host needs {error.name}, which is not installed: pip install 'grundlag-bus[http]'."
        ) from error

    options = ServeOptions(
        source=choose_source(ctx, url=url, namespace=namespace, registry=registry),
        host=host,
        port=port,
        tokens=tokens,
        jwks=jwks,
        audience=audience,
        issuer=issuer,
        allow=allow,
        cors=tuple(cors or ()),
        store=store,
        keys_file=keys_file,
        grace=grace,
    )
    return serve_over_http(options, level=log_level(ctx, "info"))
