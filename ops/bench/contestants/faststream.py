"""FastStream's `request`, with pydantic models for input and output, as its documentation shows it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from faststream.rabbit import QueueType, RabbitBroker, RabbitQueue
from pydantic import BaseModel

from ops.bench.contest import INPUT, QUEUE, Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

CALLS = RabbitQueue(f"{QUEUE}.faststream", durable=True, queue_type=QueueType.QUORUM)


class Add(BaseModel):
    a: int
    b: int


class Sum(BaseModel):
    sum: int


async def serve(url: str, ready: Callable[[], None]) -> None:
    broker = RabbitBroker(url, logger=None)

    @broker.subscriber(CALLS)
    async def add(numbers: Add) -> Sum:
        return Sum(sum=numbers.a + numbers.b)

    await broker.start()
    ready()
    await asyncio.Event().wait()


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Call]:
    async with RabbitBroker(url, logger=None) as broker:

        async def call() -> object:
            reply = await broker.request(INPUT, queue=CALLS, timeout=60)
            return await reply.decode()

        yield call
