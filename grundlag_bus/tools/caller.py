"""The one seam: a call goes in, a reply comes out, wherever the action runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call, Reply


class Caller(Protocol):
    """Runs calls: in this process (`LocalCaller`) or over the bus (`BusCaller`).

    Everything in a call and in a reply is plain JSON data, in this process too.
    """

    async def call(self, call: Call) -> Reply:
        """Run one call and return how it ended; every failure is a `Failed` response.

        Raises nothing but CancelledError: cancelling the awaiting coroutine gives the call up.
        """
