"""A registry for tests of the command line: an action that asks for much, one that waits, one that breaks."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from grundlag_bus import ActionContext, Provider, ProviderRegistry, ToolInterrupt

provider = Provider("form", name="Form")


class Address(BaseModel):
    city: str
    zip: int


class Order(BaseModel):
    title: str = "Tea"


class Details(BaseModel):
    approved: bool = Field(description="Whether to do it")
    size: Literal["small", "large"]
    name: Annotated[str, Field(min_length=2)]
    count: Annotated[int, Field(ge=1, le=9)]
    price: float
    day: date
    address: Address
    tags: list[str]
    comment: str | None = Field(default=None, description="Why, or why not")
    hurry: bool = False


class Given(BaseModel):
    answer: dict[str, Any]
    user: str | None
    by: str | None


class Even(BaseModel):
    number: int


class Folder(BaseModel):
    folder: Path


@provider.action("order", name="Order", answer=Details)
async def order(wanted: Order, ctx: ActionContext[Details]) -> Given:
    """Orders something, after a person gave the details."""
    if ctx.resumption is None:
        raise ToolInterrupt(f"Order \x1b[31m{wanted.title}?", data={"order": wanted})
    given = ctx.resumption.answer.model_dump(mode="json", exclude_unset=True)
    return Given(answer=given, user=ctx.user_id, by=ctx.resumption.by)


class TwoEven(BaseModel):
    first: int
    second: int

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.first + self.second != 10:
            raise ValueError("the two numbers must make 10")
        return self


@provider.action("tens", name="Two numbers that make ten", answer=TwoEven)
async def tens(wanted: Order, ctx: ActionContext[TwoEven]) -> Even:
    """Asks for what no JSON Schema can check."""
    if ctx.resumption is None:
        raise ToolInterrupt("Two numbers that make 10?")
    return Even(number=ctx.resumption.answer.first)


@provider.action("twice", name="Ask twice", answer=Even)
async def twice(wanted: Order, ctx: ActionContext[Even]) -> Even:
    """Asks again after the first answer."""
    if ctx.resumption is None:
        raise ToolInterrupt("First?", state=0)
    if ctx.resumption.state == 0:
        raise ToolInterrupt("Second?", state=ctx.resumption.answer.number)
    return Even(number=ctx.resumption.state + ctx.resumption.answer.number)


@provider.action("hold", name="Hold")
async def hold(wanted: Folder, ctx: ActionContext) -> Even:
    """Writes a file `held`, and ends when there is a file `release`; where it is cancelled, it writes that."""
    await ctx.progress(1, 2, "holding")
    (wanted.folder / "held").touch()
    try:
        while not (wanted.folder / "release").exists():  # noqa: ASYNC110  the file comes from another process
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        (wanted.folder / "cancelled").touch()
        raise
    return Even(number=1)


@provider.action("crash", name="Crash")
async def crash(wanted: Order, ctx: ActionContext) -> Even:
    """Raises something unexpected."""
    raise KeyError(wanted.title)


registry = ProviderRegistry([provider])


async def make_registry(name: str = "form") -> ProviderRegistry:
    """Return the same registry from an async function."""
    await asyncio.sleep(0)
    return registry
