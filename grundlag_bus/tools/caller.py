"""The one seam: a call goes in, a reply comes out, wherever the action runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from grundlag_bus.schema.envelope import Call, Reply
    from grundlag_bus.schema.progress import ProgressSink


class Caller(Protocol):
    """Runs calls: in this process (`LocalCaller`) or over the bus (`BusCaller`).

    Everything in a call and in a reply is plain JSON data, in this process too.
    """

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        """Run one call and return how it ended; every failure is a `Failed` response.

        on_progress: hears what the call tells before it ends, as far as nothing is lost on the way; cancel: setting it
        asks for cancellation, and the reply then is `cancelled` when the action has stopped, `outcome_unknown` if it
        does not stop in time, or what it was if it had ended before. Cancelling the awaiting coroutine asks for the
        same and raises CancelledError, which is all that this raises.
        """
