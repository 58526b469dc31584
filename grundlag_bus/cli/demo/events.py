"""Calendar events as a table: when, in which zone, and what."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich import box
from rich.padding import Padding
from rich.table import Table

from grundlag_bus.cli.exits import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

_SHOWN = 12


def events_table(events: Sequence[dict[str, Any]], *, more: bool) -> RenderableType:
    """Make a table of the first events. more: whether there are others beyond those given."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("start", style="cyan", no_wrap=True)
    table.add_column("event", overflow="fold")
    table.add_column("where", overflow="fold", style="dim")
    for event in events[:_SHOWN]:
        title = f"{event['title']} (repeats)" if event["recurrence"] else event["title"]
        table.add_row(start_of(event), printable(title), printable(event.get("location") or ""))
    if more or len(events) > _SHOWN:
        table.add_row("…", "and more" if more else f"and {len(events) - _SHOWN} more", "")
    return Padding(table, (0, 0, 0, 3), expand=False)


def start_of(event: dict[str, Any]) -> str:
    """Write when an event starts on the wall clock of its own zone, with the zone's name and offset."""
    if event["allDay"]:
        return f"{event['localStart']} all day"
    local = datetime.fromisoformat(event["localStart"])
    zone, offset = printable(event["timeZone"]), _offset(local.utcoffset() or timedelta())
    return f"{local:%Y-%m-%d %H:%M} {zone}" + ("" if zone == offset else f" ({offset})")


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    if not minutes:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours}{f':{rest:02}' if rest else ''}"
