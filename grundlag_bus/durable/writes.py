"""Transactions that are carried to their end, whoever stops waiting for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Writes:
    """Half of a transaction is what nobody can tell: none is cancelled with its run."""

    def __init__(self) -> None:
        self._writing: set[asyncio.Task[Any]] = set()

    async def do(self, write: Coroutine[Any, Any, T]) -> T:
        """Carry out, and return what comes of it. Being cancelled meanwhile ends the waiting alone."""
        writing = asyncio.get_running_loop().create_task(write)
        self._writing.add(writing)
        writing.add_done_callback(self._done)
        return await asyncio.shield(writing)

    async def settle(self) -> None:
        """Wait for all that is being written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    def _done(self, writing: asyncio.Task[Any]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # seen, also where nobody waits any more
