"""What is measured here: validated input and output, deadlines, durable calls and replies."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pydantic import BaseModel

from grundlag_bus import ActionContext, Provider, ProviderRegistry, RabbitTransport, Worker
from grundlag_bus import connect as connect_bus
from ops.bench.contest import INPUT, Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from grundlag_bus import Ledger

NAMESPACE = "grundlag-bench"


class Add(BaseModel):
    a: int
    b: int


class Sum(BaseModel):
    sum: int


demo = Provider("demo", name="Demo")


@demo.action("add", name="Add", idempotent=True)
async def add(numbers: Add, _: ActionContext) -> Sum:
    """Add two numbers."""
    return Sum(sum=numbers.a + numbers.b)


async def serve(
    url: str, ready: Callable[[], None], *, namespace: str = NAMESPACE, ledger: Ledger | None = None
) -> None:
    transport = RabbitTransport(url, namespace=namespace)
    worker = Worker(transport, ProviderRegistry([demo]), concurrency=256, ledger=ledger)
    serving = asyncio.ensure_future(worker.run())
    started = asyncio.ensure_future(worker.started.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            ready()
        await serving
    finally:
        started.cancel()
        await transport.close()


@asynccontextmanager
async def connect(url: str, *, namespace: str = NAMESPACE) -> AsyncIterator[Call]:
    async with connect_bus(url, namespace=namespace) as bus:
        tool = (await bus.to_tools())["demoAdd"]

        async def call() -> object:
            return await tool.execute(INPUT)

        yield call
