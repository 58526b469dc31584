"""The commands and their options. What a command does is loaded when it runs, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from grundlag_bus.cli.chaos import chaos
from grundlag_bus.cli.client import client
from grundlag_bus.cli.dead import dead
from grundlag_bus.cli.doctor import doctor
from grundlag_bus.cli.exits import Exit, tell
from grundlag_bus.cli.ledger import ledger
from grundlag_bus.cli.namespace import namespace
from grundlag_bus.cli.options import (
    AsJson,
    AtOnce,
    DefaultGroup,
    KeysFile,
    LedgerUrl,
    Namespace,
    NamespaceOrNone,
    Registry,
    Timeout,
    Url,
    UrlOrHost,
    choose_source,
    log_level,
    read_at_once,
)
from grundlag_bus.cli.runs import answer, host, inbox, run, runs
from grundlag_bus.cli.script import script
from grundlag_bus.cli.serve import serve
from grundlag_bus.cli.submit import submit
from grundlag_bus.errors import ConfigurationError

app = typer.Typer(
    name="grundlag-bus",
    help="Call a provider's actions as tools: in this process or over RabbitMQ.",
    add_completion=False,
    rich_markup_mode="rich",
)
manifest = typer.Typer(cls=DefaultGroup, help="Show what is announced on the bus, or retire a provider.")
keys = typer.Typer(help="Keys that seal what an interrupted action keeps.")
app.add_typer(manifest, name="manifest")
app.add_typer(keys, name="keys")
app.add_typer(dead, name="dead")
app.add_typer(client, name="client")
app.add_typer(ledger, name="ledger")
app.add_typer(namespace, name="namespace")
app.add_typer(run, name="run")
app.command("doctor")(doctor)
app.command("chaos")(chaos)


@app.callback(invoke_without_command=True)
def start(
    ctx: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="GRUNDLAG_DEBUG", help="Log more, and show tracebacks. Anywhere on the line."),
    ] = False,  # `run_line` has taken it out of the line already, wherever it stood
) -> int:
    ctx.obj = ctx.obj or debug
    if version:
        from grundlag_bus._version import __version__  # noqa: PLC0415  only here

        typer.echo(__version__)
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
    return Exit.COMPLETED


@app.command("demo")
def demo(
    ctx: typer.Context,
    *,
    ics: Annotated[
        Path | None, typer.Option("--ics", metavar="FILE", help="A calendar file of yours instead of the shipped one.")
    ] = None,
    url: Url = None,
    namespace: NamespaceOrNone = None,
) -> int:
    """Show the main job: a calendar's actions, called as tools; on an embedded bus, or over RabbitMQ with --url."""
    try:
        from grundlag_bus.cli.demo import demo as run_demo  # noqa: PLC0415  loaded when it runs
    except ModuleNotFoundError as error:
        if error.name != "icalendar":
            raise
        raise ConfigurationError(
            "The demo reads calendar files with icalendar, which is not installed: pip install 'grundlag-bus[demo]'."
        ) from error

    return run_demo(ics=ics, url=url, namespace=namespace, level=log_level(ctx, "warning"))


@app.command("worker")
def worker(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    registry: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A ProviderRegistry, or a function that returns one.")
    ],
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="PROVIDER", help="Serve this provider alone; repeat it for several.", show_default=False),
    ] = None,
    lane: Annotated[
        list[str] | None,
        typer.Option(metavar="LANE", help="Serve this lane alone; repeat it for several.", show_default=False),
    ] = None,
    concurrency: Annotated[
        list[AtOnce] | None,
        typer.Option(
            parser=read_at_once,
            metavar="[LANE=]N",
            help="Calls that run at once for each provider and lane, or in one lane; repeat it. "
            "Default: 64, and 16 in lane long.",
            show_default=False,
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Serve in so many processes, each with all of that, under one more.")
    ] = 1,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            metavar="PORT",
            help="Answer /live, /ready and /metrics there; 0 takes any free port.",
            show_default=False,
        ),
    ] = None,
    health_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address of --health-port. Kubelet and Prometheus ask from outside a container, so by default it "
            "is every one of this machine's, and anyone may ask; 127.0.0.1 keeps it to this machine.",
        ),
    ] = "0.0.0.0",  # noqa: S104  as its help says
    keys_file: KeysFile = None,
    ledger: LedgerUrl = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that running calls get when it stops.")] = 30.0,
    report_to: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Serve a registry's actions from the bus until SIGTERM or Ctrl-C; a second one does not wait for running calls."""
    from grundlag_bus.cli.worker import WorkerOptions, serve  # noqa: PLC0415  loaded when it runs

    if url is None:
        raise ConfigurationError(
            "A worker needs a bus: add --url amqp://user:password@host:port/vhost, or set GRUNDLAG_URL."
        )
    options = WorkerOptions(
        spec=registry,
        url=url,
        namespace=namespace,
        providers=provider or (),
        lanes=lane or (),
        concurrency=concurrency or (),
        keys_file=keys_file,
        ledger=ledger,
        grace=grace,
        level=log_level(ctx, "info"),
        processes=processes,
        health_port=health_port,
        health_host=health_host,
        report_to=report_to,
    )
    return serve(options)


@app.command("tools")
def tools(
    ctx: typer.Context,
    *,
    url: UrlOrHost = None,
    namespace: Namespace = "grundlag",
    registry: Registry = None,
    as_json: AsJson = False,
) -> int:
    """List the tools that there are, with what each one needs."""
    from grundlag_bus.cli.tools import list_tools  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=registry)
    return list_tools(source, as_json=as_json, level=log_level(ctx, "warning"))


@app.command("workers")
def workers(
    ctx: typer.Context,
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
    wait: Annotated[float, typer.Option("--wait", min=0.05, max=60, help="Seconds to wait for answers.")] = 1.0,
    as_json: AsJson = False,
) -> int:
    """List the workers that answer, with what they serve and how they stand.

    Exit codes: 0 somebody answered, 1 nobody did, 2 usage, 4 the bus cannot be reached or takes no question.
    """
    from grundlag_bus.cli.workers import list_workers  # noqa: PLC0415  loaded when it runs

    return list_workers(url, namespace, within=wait, as_json=as_json, level=log_level(ctx, "warning"))


@app.command("call")
def call(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="The function name, as `tools` lists it.")],
    text: Annotated[
        str, typer.Argument(metavar="[JSON]", help="The input; - reads it from stdin.", show_default=False)
    ] = "{}",
    *,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Go on with a call that asked: what --json printed of it; with the same input.",
            show_default=False,
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            "--answer", metavar="JSON", help="With --state: the answer to what was asked.", show_default=False
        ),
    ] = None,
    url: UrlOrHost = None,
    namespace: Namespace = "grundlag",
    registry: Registry = None,
    user: Annotated[str | None, typer.Option("--user", help="On whose behalf.", show_default=False)] = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Call an action and print its result; asks on the terminal when the action has a question.

    Exit codes: 0 completed, 1 failed, 2 usage, 3 interrupted and nobody can be asked, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.call import call as run_call  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=registry)
    level = log_level(ctx, "warning")
    return run_call(
        source,
        function,
        text,
        state=state,
        answer=answer,
        user=user,
        timeout=timeout,
        as_json=as_json,
        level=level,
    )


app.command("submit")(submit)
app.command("script")(script)
app.command("serve")(serve)
app.command("host")(host)
app.command("runs")(runs)
app.command("inbox")(inbox)
app.command("answer")(answer)


@manifest.command("show")
def manifest_show(
    ctx: typer.Context,
    *,
    url: UrlOrHost = None,
    namespace: Namespace = "grundlag",
    registry: Registry = None,
    as_json: AsJson = False,
) -> int:
    """Print the manifest as JSON: every provider's actions, entities and events with their schemas."""
    from grundlag_bus.cli.manifest import show  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=registry)
    return show(source, as_json=as_json, level=log_level(ctx, "warning"))


@manifest.command("retire")
def manifest_retire(
    ctx: typer.Context,
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider's id.")],
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
) -> int:
    """Remove a provider from the manifest; its queues stay. A worker of it that starts announces it again."""
    from grundlag_bus.cli.manifest import retire_provider  # noqa: PLC0415  loaded when it runs

    source = choose_source(ctx, url=url, namespace=namespace, registry=None)
    return retire_provider(source, provider, level=log_level(ctx, "warning"))


@keys.command("new")
def keys_new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; a file that exists is left alone.")],
) -> int:
    """Write a new key file (mode 0600), to be given to every worker of the same providers."""
    from grundlag_bus.cli.keys import write_new  # noqa: PLC0415  loaded when it runs

    return write_new(file)


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run_line(sys.argv[1:]))


def run_line(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Whatever goes wrong is told in one sentence on stderr."""
    arguments, debug = _take_debug(arguments)
    try:
        code: Any = typer.main.get_command(app).main(
            arguments, prog_name="grundlag-bus", standalone_mode=False, obj=debug
        )
    except (KeyboardInterrupt, typer.Abort):
        return Exit.STOPPED
    except Exception as error:  # noqa: BLE001  the end of the line: a sentence, and an exit code by its kind
        return tell(error, debug=debug, arguments=arguments)
    return int(code or 0)


def _take_debug(arguments: list[str]) -> tuple[list[str], bool]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = "--debug" in arguments[:end]
    rest = [argument for argument in arguments[:end] if argument != "--debug"] + arguments[end:]
    return rest, given or os.environ.get("GRUNDLAG_DEBUG", "").lower() not in ("", "0", "false", "no")
