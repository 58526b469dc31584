"""The `doctor` command and its options."""

from __future__ import annotations

from typing import Annotated

import typer

from grundlag_bus.cli.options import AsJson, Namespace, Url, log_level


def doctor(
    ctx: typer.Context,
    *,
    url: Url = None,
    namespace: Namespace = "grundlag",
    management: Annotated[
        str | None,
        typer.Option(
            "--management",
            metavar="URL",
            help="RabbitMQ's management API: http(s)://[user:password@]host:port. Default: the usual port of the same "
            "host, as the same user.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Look at the broker and the namespace: what is fine, what is not, and what to do about it.

    It makes nothing that is not there, but a mailbox to ask the workers, which expires.

    Policies, alarms, memory, disk and partitions are asked of the management API, where it can be reached.

    Exit codes: 0 nothing fails, 1 something does, 2 usage, 4 the bus cannot be reached.
    """
    from grundlag_bus.cli.doctor.examining import examine  # noqa: PLC0415  loaded when it runs

    return examine(url, namespace, management=management, as_json=as_json, level=log_level(ctx, "error"))
