"""`host`, `runs`, `inbox` and `answer`, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from grundlag_bus.cli.options import AsJson, Namespace, StoreUrl, Url, log_level
from grundlag_bus.cli.runs.group import Wait, WithoutLedger
from grundlag_bus.cli.runs.place import Place, choose_place, store_of

if TYPE_CHECKING:
    from grundlag_bus.schema.run import Status

STATUSES = ("running", "waiting", "completed", "failed", "cancelled")


def host(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    *,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs that are driven at once; those that wait do not count.")
    ] = 64,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="VENDOR:NAME",
            help="Drive agents too, with this model as pydantic-ai names it, such as openai:gpt-5; its key is in the "
            "environment.",
            show_default=False,
        ),
    ] = None,
    without_ledger: WithoutLedger = False,
    store: StoreUrl = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
) -> int:
    """Drive the runs of a store until SIGTERM or Ctrl-C, and give them back then; several hosts share them.

    A second signal ends it at once: others go on with its runs when its leases end.
    """
    from grundlag_bus.cli.runs.hosting import HostOptions, host_runs  # noqa: PLC0415  loaded when it runs

    place = choose_place(store, url=url, namespace=namespace)
    assert place.source is not None  # noqa: S101  for mypy: it was just chosen
    options = HostOptions(
        store=place.store, source=place.source, concurrency=concurrency, model=model, without_ledger=without_ledger
    )
    return host_runs(options, level=log_level(ctx, "info"))


def runs(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    *,
    status: Annotated[
        str | None,
        typer.Option(metavar="|".join(STATUSES), help="Those that are so.", show_default=False),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Those of this user.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> int:
    """List runs, the newest first."""
    from grundlag_bus.cli.runs.listing import list_runs  # noqa: PLC0415  loaded when it runs

    if status is not None and status not in STATUSES:
        raise typer.BadParameter(f"no run is {status!r}: write {', '.join(STATUSES[:-1])} or {STATUSES[-1]}")
    chosen = cast("Status | None", status)
    level = log_level(ctx, "warning")
    return list_runs(Place(store_of(store)), user=user, status=chosen, limit=limit, as_json=as_json, level=level)


def inbox(
    ctx: typer.Context,
    *,
    user: Annotated[
        str | None, typer.Option("--user", help="Those that this user may answer.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> int:
    """List the questions of runs that wait for an answer, the oldest first."""
    from grundlag_bus.cli.runs.listing import list_questions  # noqa: PLC0415  loaded when it runs

    level = log_level(ctx, "warning")
    return list_questions(Place(store_of(store)), user=user, limit=limit, as_json=as_json, level=level)


def answer(  # noqa: PLR0913  the command's options
    ctx: typer.Context,
    interrupt_id: Annotated[str, typer.Argument(metavar="ID", help="The question's id, as `inbox` lists it.")],
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[JSON]",
            help="The answer; - reads it from stdin. Without one, it is asked here.",
            show_default=False,
        ),
    ] = None,
    *,
    reject: Annotated[
        str | None,
        typer.Option("--reject", metavar="REASON", help="Let the call that asks not run.", show_default=False),
    ] = None,
    edit: Annotated[
        str | None,
        typer.Option("--edit", metavar="JSON", help="Let it be called with this input instead.", show_default=False),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="USER", help="Who answers.", show_default=False)] = None,
    wait: Wait = False,
    store: StoreUrl = None,
    url: Url = None,
    namespace: Namespace = "grundlag",
    as_json: AsJson = False,
) -> int:
    """Answer what a run asks, with JSON or by a form on the terminal; or reject or edit the call that asks.

    Only --edit needs the bus, since it checks the new input. Of two answers the first one counts, and the second is
    told whose that was.
    """
    from grundlag_bus.cli.runs.answering import Said, answer_question  # noqa: PLC0415  loaded when it runs

    place = Place(store_of(store)) if edit is None else choose_place(store, url=url, namespace=namespace)
    said = Said(answer=text, reject=reject, edit=edit)
    level = log_level(ctx, "warning")
    return answer_question(place, interrupt_id, said, by=by, wait=wait, as_json=as_json, level=level)
