"""`tools`: what can be called, and what each tool needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.cli.source import Source
    from grundlag_bus.tools import Tool


def list_tools(source: Source, *, as_json: bool, level: str) -> int:
    """Print the tools as a table, or with `as_json` as a list of objects on one line."""

    async def work() -> int:
        async with source.open() as bus:
            tools = (await bus.to_tools()).values()
        if as_json:
            print_json([_to_json(tool) for tool in tools], one_line=True)
        elif tools:
            console().print(_table(tools))
        else:
            say(f"there are no tools in {source}: {source.remedy}.")
        return Exit.COMPLETED

    return run(work(), level=level)


def _to_json(tool: Tool) -> dict[str, object]:
    told = {
        "functionName": tool.id,
        "providerId": tool.provider_id,
        "actionId": tool.action_id,
        "name": tool.name,
        "description": tool.description,
        "input": tool.input,
        "output": tool.output,
        "answer": tool.answer,
    }
    return {name: value for name, value in told.items() if value is not None}


def _table(tools: Iterable[Tool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("function", style="bold cyan", no_wrap=True)
    for column in ("provider", "action", "needs"):
        table.add_column(column, overflow="fold")
    for tool in tools:
        needs = summarise(tool.input)
        if tool.answer is not None:
            needs += f"\nasks a person for {summarise(tool.answer)}"
        table.add_row(*map(printable, (tool.id, tool.provider_id or "", tool.action_id or "", needs)))
    return table
