"""Hosts of runs in processes of their own, that kill themselves at a point of a run's way.

They are forked from one process that has everything imported: a test has a dozen of them.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import ForkServerContext, ForkServerProcess

    from grundlag_bus import ModelReply, ModelRequest


_PRELOADED = (
    *("aiosqlite", "asyncpg", "alembic.operations", "alembic.script", "sqlalchemy.dialects.postgresql.asyncpg"),
    *("grundlag_bus.durable", "grundlag_bus.store.store", "grundlag_bus.transport.rabbitmq"),
    "grundlag_bus.sandbox.script.engine_monty",
)


@dataclass(frozen=True)
class Setting:
    """What such a host works with. point: at which it kills itself, None for never."""

    url: str
    namespace: str
    store_url: str
    lease: float
    point: str | None = None


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.run_host", *_PRELOADED])
    return context


@contextmanager
def run_host(setting: Setting) -> Iterator[ForkServerProcess]:
    """Start one; it is killed in the end if it still runs."""
    process = _context().Process(target=_serve, args=(setting,))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


def _serve(setting: Setting) -> None:
    asyncio.run(_host(setting))


async def _host(setting: Setting) -> None:
    from grundlag_bus import Runs, ScriptedModel, Store, connect  # noqa: PLC0415  in the process alone
    from grundlag_bus.durable import failpoints  # noqa: PLC0415  the same

    def kill(point: str) -> None:
        if point == setting.point:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = kill
    async with (
        await Store.open(setting.store_url) as store,
        connect(setting.url, namespace=setting.namespace) as bus,
        Runs(store, bus, lease=setting.lease, model=ScriptedModel(_reply)),
    ):
        await asyncio.Event().wait()


def _reply(request: ModelRequest) -> ModelReply | str:
    """Reply by how far the conversation is, whichever process has had the part before."""
    from grundlag_bus import ModelReply, Replied, ToolCall  # noqa: PLC0415  in the process alone

    turn = sum(isinstance(message, Replied) for message in request.messages)
    match turn:
        case 0 | 1 | 2:
            return ModelReply("", tuple(ToolCall.of("contractEcho", {"value": [turn, number]}) for number in range(2)))
        case 3:
            return ModelReply("", (ToolCall.of("contractAsk", {"id": "a"}),))
    return f"Done: {turn} turns."
