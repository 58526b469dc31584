"""A registry for tests of what is told of calls: an action for each way to end."""

from __future__ import annotations

import os

from pydantic import BaseModel

from grundlag_bus import ActionContext, ActionFailed, Defer, Provider, ProviderRegistry, Retry, ToolInterrupt


class Nothing(BaseModel):
    pass


class Ran(BaseModel):
    pid: int


class Approval(BaseModel):
    approved: bool


class PassingError(Exception):
    pass


ways = Provider("ways", name="Ways to end")


@ways.action("complete", name="Complete")
async def complete(_: Nothing) -> Ran:
    """Completes."""
    return Ran(pid=os.getpid())


@ways.action("ask", name="Ask", answer=Approval)
async def ask(_: Nothing, ctx: ActionContext[Approval]) -> Ran:
    """Asks."""
    raise ToolInterrupt("May I?")


@ways.action("refuse", name="Refuse")
async def refuse(_: Nothing) -> Ran:
    """Fails with a code of its own."""
    raise ActionFailed("too_late", "It is too late.")


@ways.action("exhaust", name="Exhaust", retry=Retry(PassingError, attempts=3, backoff=0))
async def exhaust(_: Nothing) -> Ran:
    """Fails as often as it may be started."""
    raise PassingError


@ways.action("later", name="Later")
async def later(_: Nothing, ctx: ActionContext) -> Ran:
    """Completes at its second start."""
    if ctx.deferred is None:
        raise Defer("waited", after=0)
    return Ran(pid=os.getpid())


registry = ProviderRegistry([ways])
