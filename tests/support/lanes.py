"""A registry for tests of worker processes: two providers, and actions that tell which process ran them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from pydantic import BaseModel

from grundlag_bus import ActionContext, Provider, ProviderRegistry


class Nothing(BaseModel):
    pass


class Line(BaseModel):
    file: str
    line: str
    seconds: float = 0.0


class Ran(BaseModel):
    pid: int


def _append(given: Line) -> None:
    with Path(given.file).open("a") as file:
        file.write(f"{given.line}\n")


swift = Provider("swift", name="Swift")
heavy = Provider("heavy", name="Heavy")


@swift.action("who", name="Who")
async def who(_: Nothing) -> Ran:
    """Tells the process that runs it."""
    return Ran(pid=os.getpid())


@swift.action("write", name="Write")
async def write(given: Line, ctx: ActionContext) -> Ran:
    """Adds a line to a file, a while after it was started."""
    ctx.logger.warning("write_started")
    await asyncio.sleep(given.seconds)
    _append(given)
    return Ran(pid=os.getpid())


@swift.action("block", name="Block")
async def block(given: Line) -> None:
    """Blocks the event loop, and tells so in a file."""
    _append(given)
    time.sleep(given.seconds)  # noqa: ASYNC251  what is tested


@swift.action("die", name="Die")
async def die(_: Nothing) -> None:
    """Kills the process that runs it."""
    os._exit(3)


@heavy.action("whoSlowly", name="Who, slowly", lane="long")
async def who_slowly(_: Nothing) -> Ran:
    """Tells the process that runs it."""
    return Ran(pid=os.getpid())


@heavy.action("whoAlso", name="Who, too")
async def who_also(_: Nothing) -> Ran:
    """Tells the process that runs it."""
    return Ran(pid=os.getpid())


registry = ProviderRegistry([swift, heavy])
