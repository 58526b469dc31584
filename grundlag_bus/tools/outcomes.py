"""Several calls side by side, each with its own outcome."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grundlag_bus.errors import ToolInterrupt

if TYPE_CHECKING:
    from collections.abc import Awaitable


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call ended: `value` when completed, `interrupt` when interrupted, `error` when failed."""

    status: Literal["completed", "interrupted", "failed"]
    value: Any = None
    interrupt: ToolInterrupt | None = None
    error: Exception | None = None


async def gather_outcomes(*calls: Awaitable[Any]) -> list[Outcome]:
    """Await calls side by side and return each one's outcome, in order.

    An `asyncio.TaskGroup` would cancel the siblings of a call that interrupts; here each runs to its end. Cancelling
    this coroutine cancels them all.
    """
    return list(await asyncio.gather(*(_outcome(call) for call in calls)))


async def _outcome(call: Awaitable[Any]) -> Outcome:
    try:
        return Outcome("completed", value=await call)
    except ToolInterrupt as interrupt:
        return Outcome("interrupted", interrupt=interrupt)
    except Exception as error:  # noqa: BLE001  it is handed to whoever gathers
        return Outcome("failed", error=error)
