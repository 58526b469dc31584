"""Cancellations on their way to the workers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from grundlag_bus import MemoryTransport
from grundlag_bus.adapters.cancels import Cancels
from grundlag_bus.schema.control import decode_cancel
from grundlag_bus.transport.base import Message
from grundlag_bus.transport.topology import Route


async def test_what_is_cancelled_before_any_worker_was_there_is_known_to_the_first_one() -> None:
    """A call that is delayed may be in nobody's queue yet."""
    transport = MemoryTransport()
    await transport.open()
    cancels = Cancels(transport)
    cancels.send("c")
    await cancels.close()
    empty, body = await transport.read(transport.topology.cancels)
    assert (empty, decode_cancel(body).call_id) == (b"{}", "c")
    await transport.close()


def test_a_loop_that_ends_with_a_cancellation_on_its_way_says_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(MemoryTransport):
        async def publish(
            self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
        ) -> None:
            await asyncio.sleep(60)

    cancels = Cancels(Stuck())

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancels.send("c")
            raise

    left: list[object] = []

    async def main() -> None:
        left.append(asyncio.create_task(call()))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert len(cancels._sending) == 1
    cancels._sending._running.clear()
    gc.collect()
    assert "destroyed" not in caplog.text
