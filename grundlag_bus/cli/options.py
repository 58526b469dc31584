"""The options that commands share, and the environment variables behind them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from grundlag_bus.cli.source import TOKEN, Source
from grundlag_bus.errors import ConfigurationError

URL = "GRUNDLAG_URL"
LEDGER = "GRUNDLAG_LEDGER"
STORE = "GRUNDLAG_STORE"

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar=URL,
        help="The bus: amqp://user:password@host:port/vhost, or amqps://.",
        show_default=False,
    ),
]
UrlOrHost: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar=URL,
        help="The bus: amqp://user:password@host:port/vhost, or amqps://; or an HTTP host: https://host:port, with "
        f"its token in {TOKEN}.",
        show_default=False,
    ),
]
Namespace: TypeAlias = Annotated[
    str, typer.Option("--namespace", envvar="GRUNDLAG_NAMESPACE", help="The namespace on the bus.")
]
NamespaceOrNone: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        envvar="GRUNDLAG_NAMESPACE",
        help="The namespace on the bus; default: one of the demo's own.",
        show_default=False,
    ),
]
Registry: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="MODULE:NAME",
        help="Run the actions of this registry in this process, without a bus.",
        show_default=False,
    ),
]
KeysFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        envvar="GRUNDLAG_KEYS",
        help="The key file that all workers of these providers share.",
        show_default=False,
    ),
]
LedgerUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar=LEDGER,
        help="Record calls there: sqlite:///FILE for one host, postgresql://user:password@host/name for a fleet.",
        show_default=False,
    ),
]
StoreUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar=STORE,
        help="Where runs are: sqlite:///FILE for one host, postgresql://user:password@host/name for several.",
        show_default=False,
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option("--timeout", min=0.001, help="Seconds until the call fails; default: 5 minutes.", show_default=False),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one line of JSON on stdout and nothing else.")]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """How many calls run at once: in one lane, or in every lane that is not named (None)."""

    lane: str | None
    calls: int

    def __str__(self) -> str:
        return str(self.calls) if self.lane is None else f"{self.lane}={self.calls}"


def read_at_once(text: str) -> AtOnce:
    """Read `N` or `LANE=N`. Raises BadParameter."""
    lane, equals, number = text.rpartition("=")
    if (equals and not lane) or not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise typer.BadParameter(f"{text!r} is no number of calls: write N, or LANE=N, with N of at least 1")
    return AtOnce(lane or None, int(number))


class DefaultGroup(TyperGroup):
    """A group of commands whose `show` is meant when none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # the context's base class is private to typer
        asks_help = bool(args) and args[0] in ctx.help_option_names
        if not asks_help and (not args or args[0].startswith("-")):
            args = ["show", *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def log_level(ctx: typer.Context, usual: str) -> str:
    """Return the level to log at: more than usual with --debug."""
    return "debug" if ctx.obj else usual


def choose_source(ctx: typer.Context, *, url: str | None, namespace: str, registry: str | None) -> Source:
    """Decide where calls go: what stands on the command line counts before what the environment says.

    Raises ConfigurationError.
    """
    if registry is not None and url is not None:
        if _on_the_line(ctx, "url"):
            raise ConfigurationError("Both --url and --registry are given: use one of them.")
        url = None
    if registry is None and url is None:
        raise ConfigurationError(
            "Neither a bus nor a registry is given: add --url amqp://user:password@host (or set GRUNDLAG_URL), or "
            "--registry module:name to run in this process."
        )
    return Source(url=url, namespace=namespace, registry=registry)


def _on_the_line(ctx: typer.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"
