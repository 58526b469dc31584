"""Actions of lane `long`, of a provider that is called as the contract's, so that its hosts serve them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel

from grundlag_bus import ActionContext, Defer, Provider, ProviderRegistry, Retry, SealKeys
from tests.support.contract_registry import seen
from tests.support.eventually import eventually

long = Provider("contract", name="Long")


class Way(BaseModel):
    """steps: how many there are; each waits for the gate of its number under the name."""

    name: str
    steps: int = 1


class Arrived(BaseModel):
    """began: where this start continued; attempt: of the call."""

    began: int
    attempt: int


class Stride(BaseModel):
    """fail: attempts that fail after the first step; seconds: that the first start takes; defer: whether it does."""

    fail: int = 0
    seconds: float = 0.0
    defer: bool = False


@long.action("climbOnce", name="Climb, and start no second time", lane="long", rerun=False)
async def climb_once(way: Way, ctx: ActionContext) -> Arrived:
    return await _climb(way, ctx)


class March(BaseModel):
    """seconds: that it takes; file: where each start says what it began with."""

    seconds: int
    file: str


def _append(file: str, line: str) -> None:
    with Path(file).open("a") as opened:
        opened.write(f"{line}\n")


@long.action("march", name="March for a while", lane="long")
async def march(way: March, ctx: ActionContext) -> Arrived:
    began = done = ctx.checkpointed or 0
    _append(way.file, f"{os.getpid()} from {began}")
    while done < way.seconds:
        await asyncio.sleep(1)
        done += 1
        if done % 5 == 0:
            await ctx.checkpoint(done)
    return Arrived(began=began, attempt=ctx.attempt)


async def _climb(way: Way, ctx: ActionContext) -> Arrived:
    began = step = ctx.checkpointed or 0
    seen.runs[way.name] += 1
    seen.notes.append((way.name, "from", began))
    try:
        while step < way.steps:
            await eventually(seen.gate(f"{way.name} {step + 1}").is_set, within=120)
            step += 1
            await ctx.checkpoint(step)
            seen.notes.append((way.name, "at", step))
    except asyncio.CancelledError:
        seen.notes.append((way.name, "stopped"))
        raise
    return Arrived(began=began, attempt=ctx.attempt)


@long.action("climb", name="Climb step by step", lane="long")
async def climb(way: Way, ctx: ActionContext) -> Arrived:
    return await _climb(way, ctx)


@long.action("climbFrail", name="Climb, and survive no worker", lane="long", crashes=1)
async def climb_frail(way: Way, ctx: ActionContext) -> Arrived:
    return await _climb(way, ctx)


@long.action("stride", name="Make one step", lane="long", retry=Retry(on=ConnectionError, backoff=0))
async def stride(way: Stride, ctx: ActionContext) -> Arrived:
    began = ctx.checkpointed or 0
    if began == 0:
        await ctx.checkpoint(1)
        await asyncio.sleep(way.seconds)
    if way.defer and ctx.deferred is None:
        raise Defer({"waited": True}, after=0)
    if ctx.attempt <= way.fail:
        raise ConnectionError
    return Arrived(began=began, attempt=ctx.attempt)


def make_registry(keys: SealKeys) -> ProviderRegistry:
    return ProviderRegistry([long], keys=keys)
