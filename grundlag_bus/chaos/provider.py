"""The two providers that are called: the same actions, served by workers without a ledger and by others with one.

Each start and each effect of an action is noted in the history of its worker, by call id and fence.
"""

from __future__ import annotations

import asyncio
import select
import time
from typing import TYPE_CHECKING

from pydantic import BaseModel

from grundlag_bus.chaos.database import record_effect
from grundlag_bus.chaos.history import Effect, Started
from grundlag_bus.errors import ActionFailed, Defer, ToolInterrupt
from grundlag_bus.providers.context import ActionContext
from grundlag_bus.providers.disposition import Retry
from grundlag_bus.providers.provider import Provider
from grundlag_bus.providers.registry import ProviderRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.chaos.history import Record
    from grundlag_bus.providers.seal import SealKeys

FREE, KEPT = "chaos", "chaosKept"
"""The ids of the providers: without a ledger, and with one."""

FAILURE = "chaos_failure"
RETRIES = 2
STEPS = 3
"""How often the action `telling` tells something."""


class Work(BaseModel):
    value: int
    seconds: float = 0.0
    text: str = ""


class Done(BaseModel):
    """What tells a caller that it got the result of its own call."""

    value: int
    call_id: str
    fence: int | None
    attempt: int
    text: str = ""


class Approval(BaseModel):
    approved: bool


def result_of(value: int) -> int:
    """Return what every action makes of a number."""
    return value * 2 + 1


def make_registry(
    provider_id: str, *, worker: str, note: Callable[[Record], None], keys: SealKeys | None = None
) -> ProviderRegistry:
    """Make the registry of one of the two. note: takes what the actions do, in any thread."""
    return ProviderRegistry([_Actions(worker, note).provider(provider_id)], keys=keys)


class _Actions:
    def __init__(self, worker: str, note: Callable[[Record], None]) -> None:
        self._worker = worker
        self._note = note

    def provider(self, provider_id: str) -> Provider:
        provider = Provider(provider_id, name="Calls under faults")
        define = provider.action
        define("quick", name="Quick")(self._quick)
        define("again", name="Quick, and harmless to repeat", idempotent=True)(self._quick)
        define("large", name="Large")(self._quick)
        define("slow", name="Slow")(self._slow)
        define("cancelled", name="Cancelled by its caller")(self._slow)
        define("long", name="In a lane of its own", lane="long")(self._slow)
        define("once", name="Started once", rerun=False)(self._slow)
        define("sync", name="In a thread")(self._sync)
        define("failing", name="Failing")(self._failing)
        define("retrying", name="Failing at first", retry=Retry(on=TimeoutError, attempts=RETRIES + 1, backoff=1))(
            self._retrying
        )
        define("deferring", name="Later")(self._deferring)
        define("asking", name="Asking", answer=Approval)(self._asking)
        define("telling", name="Telling how far it is")(self._telling)
        if provider_id == KEPT:
            define("storing", name="With an effect in the ledger's database")(self._storing)
        return provider

    async def _quick(self, work: Work, ctx: ActionContext) -> Done:
        """Compute at once."""
        self._start(ctx)
        return self._do(work, ctx)

    async def _slow(self, work: Work, ctx: ActionContext) -> Done:
        """Compute after a while."""
        self._start(ctx)
        await asyncio.sleep(work.seconds)
        return self._do(work, ctx)

    def _sync(self, work: Work, ctx: ActionContext) -> Done:
        """Compute in a thread."""
        self._start(ctx)
        select.select([], [], [], work.seconds)  # time.sleep() refuses to under libfaketime, which moves clocks here
        return self._do(work, ctx)

    async def _failing(self, work: Work, ctx: ActionContext) -> Done:
        """Fail after the effect."""
        self._start(ctx)
        self._do(work, ctx)
        raise ActionFailed(FAILURE, "This action fails.", details={"value": work.value, "callId": ctx.call_id})

    async def _retrying(self, work: Work, ctx: ActionContext) -> Done:
        """Fail twice, then compute."""
        self._start(ctx)
        if ctx.attempt <= RETRIES:
            raise TimeoutError
        return self._do(work, ctx)

    async def _deferring(self, work: Work, ctx: ActionContext) -> Done:
        """Compute a second later."""
        self._start(ctx)
        if ctx.deferred is None:
            raise Defer({"value": work.value}, after=1)
        return self._do(Work(value=ctx.deferred["value"]), ctx)

    async def _asking(self, work: Work, ctx: ActionContext[Approval]) -> Done:
        """Ask, and compute when the answer is there."""
        self._start(ctx)
        if ctx.resumption is None:
            raise ToolInterrupt("Go on?", data={"value": work.value, "callId": ctx.call_id}, state=work.value)
        return self._do(Work(value=ctx.resumption.state), ctx)

    async def _telling(self, work: Work, ctx: ActionContext) -> Done:
        """Tell how far it is, and emit items."""
        self._start(ctx)
        for step in range(STEPS):
            await ctx.progress(step + 1, STEPS)
            ctx.items.emit("step", {"step": step, "callId": ctx.call_id})
            await asyncio.sleep(work.seconds / STEPS)
        return self._do(work, ctx)

    async def _storing(self, work: Work, ctx: ActionContext) -> Done:
        """Write a row that is to be written once."""
        self._start(ctx)
        await asyncio.sleep(work.seconds)
        async with ctx.ledger_transaction() as connection:
            await record_effect(connection, ctx.call_id, ctx.fence or 0)
        return self._do(work, ctx)

    def _start(self, ctx: ActionContext) -> None:
        self._note(Started(time.monotonic(), ctx.call_id, self._worker, ctx.attempt, ctx.fence))

    def _do(self, work: Work, ctx: ActionContext) -> Done:
        self._note(Effect(time.monotonic(), ctx.call_id, self._worker, ctx.fence))
        return Done(
            value=result_of(work.value), call_id=ctx.call_id, fence=ctx.fence, attempt=ctx.attempt, text=work.text
        )
