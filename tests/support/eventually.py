"""Wait for a condition instead of a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


async def eventually(condition: Callable[[], object], within: float = 30.0) -> None:
    """Return as soon as the condition is true; fail where it was asked when it is not so within that many seconds."""
    __tracebackhide__ = True
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while not condition():
        if loop.time() > end:
            raise AssertionError(f"This did not come true within {within} s.")
        await asyncio.sleep(0.002)
