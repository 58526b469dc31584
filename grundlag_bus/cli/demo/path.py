"""The way of a call, overheard at the seam and shown in a line."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from grundlag_bus.schema.envelope import Failed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rich.console import RenderableType

    from grundlag_bus.schema.envelope import Call, Reply
    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.tools import Caller


@dataclass(frozen=True, slots=True)
class Crossing:
    """A call, its reply, and how long its caller waited, in milliseconds."""

    call: Call
    reply: Reply
    milliseconds: float


class OverheardCaller:
    """Passes calls on to another caller and tells of each when it has ended."""

    def __init__(self, caller: Caller, told: Callable[[Crossing], None]) -> None:
        self._caller = caller
        self._told = told

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        started = time.perf_counter()
        reply = await self._caller.call(call, on_progress=on_progress, cancel=cancel)
        self._told(Crossing(call, reply, (time.perf_counter() - started) * 1000))
        return reply


def path_line(crossing: Crossing, *, tool: str, queue: str, worker: str) -> RenderableType:
    """Write a crossing as tool → queue → worker → reply, with what its caller waited."""
    response = crossing.reply.response
    status = str(response.to_json()["status"])
    style = {"completed": "green", "interrupted": "yellow"}.get(status, "red")
    if isinstance(response, Failed):
        status = f"{status} ({response.code})"
    steps = ((tool, "cyan"), (queue, "blue"), (worker, "magenta"), (status, style))
    line = Text(" → ", "dim").join(Text(text, colour) for text, colour in steps)
    return Padding(line.append(f"  {crossing.milliseconds:.1f} ms", "bold"), (0, 0, 0, 3), expand=False)
