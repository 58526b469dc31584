"""The provider `demo`: small actions for trying things out, tests and benchmarks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from grundlag_bus import ActionContext, ActionFailed, Provider

demo = Provider("demo", name="Demo", description="Small actions for trying things out.")


class Addends(BaseModel):
    model_config = ConfigDict(extra="forbid")

    a: int = Field(description="A whole number")
    b: int = Field(description="Another one")


class Sum(BaseModel):
    sum: int = Field(description="a + b")


class Value(BaseModel):
    value: Any = Field(description="Any JSON value")


class Pause(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(ge=0, le=86_400, description="How long; a day at most")


class Paused(BaseModel):
    slept: float = Field(description="How long it was, in seconds")


class Failure(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: str = Field(pattern="^[a-z][a-z0-9_]{0,39}$", description="The code to fail with, such as out_of_stock")
    message: str = Field(max_length=1_000, description="A sentence for the caller")
    retryable: bool = Field(default=False, description="Whether the same call may succeed later")


class Countdown(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: int = Field(ge=0, le=1_000, description="The number to count down from")


class Counted(BaseModel):
    steps: list[int] = Field(description="The numbers counted, down to 0")


@demo.action("add", name="Add two numbers", idempotent=True, parallel_safe=True)
async def add(numbers: Addends) -> Sum:
    """Adds two whole numbers."""
    return Sum(sum=numbers.a + numbers.b)


@demo.action("echo", name="Echo a value", idempotent=True, parallel_safe=True)
async def echo(given: Value) -> Value:
    """Returns the value that it is given."""
    return given


@demo.action("sleep", name="Sleep", idempotent=True, parallel_safe=True)
async def sleep(pause: Pause) -> Paused:
    """Waits, and returns how long it did."""
    started = time.monotonic()
    await asyncio.sleep(pause.seconds)
    return Paused(slept=time.monotonic() - started)


@demo.action("fail", name="Fail", idempotent=True, parallel_safe=True)
async def fail(failure: Failure) -> None:
    """Fails with the code and message that it is given."""
    raise ActionFailed(failure.code, failure.message, retryable=failure.retryable)


@demo.action("countdown", name="Count down", idempotent=True, parallel_safe=True)
async def countdown(wanted: Countdown, ctx: ActionContext) -> Counted:
    """Counts down to 0 and emits an item `countdownStep` for each number."""
    steps = list(range(wanted.start, -1, -1))
    for left in steps:
        ctx.items.emit("countdownStep", {"left": left})
    return Counted(steps=steps)
