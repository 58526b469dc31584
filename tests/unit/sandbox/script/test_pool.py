"""Who gets an engine next: the users take turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from grundlag_bus import EnginePool, ItemStore, Sandbox, ToolContext, define_tool
from tests.support.eventually import eventually


class Nobody:
    """An engine that does nothing."""

    def kill(self) -> None: ...
    def close(self) -> None: ...


class Queue:
    """Those who wait for the one engine of a pool, and the order in which they got it."""

    def __init__(self) -> None:
        self.pool = EnginePool(1)
        self.order: list[str] = []
        self.waiting: dict[str, asyncio.Task[None]] = {}

    async def join(self, name: str, user_id: str | None) -> None:
        self.waiting[name] = asyncio.create_task(self._take(name, user_id))
        await asyncio.sleep(0)

    async def _take(self, name: str, user_id: str | None) -> None:
        async with self.pool.seat(Nobody, user_id):  # type: ignore[arg-type]  # all of an engine that is used here
            self.order.append(name)

    async def all_served(self) -> list[str]:
        await asyncio.gather(*self.waiting.values(), return_exceptions=True)
        return self.order


async def occupied(queue: Queue, opened: AsyncExitStack) -> None:
    await opened.enter_async_context(queue.pool.seat(Nobody, "ada"))  # type: ignore[arg-type]  # the same


async def test_users_take_turns_however_many_each_has_sent() -> None:
    queue = Queue()
    async with AsyncExitStack() as opened:
        await occupied(queue, opened)
        for number in range(100):
            await queue.join(f"ada{number}", "ada")
        await queue.join("bob0", "bob")
        await queue.join("nobody0", None)
        await queue.join("bob1", "bob")
        assert queue.pool.contended
    order = await queue.all_served()
    assert order[:6] == ["ada0", "bob0", "nobody0", "ada1", "bob1", "ada2"]
    assert order[6:] == [f"ada{number}" for number in range(3, 100)]
    assert not queue.pool.contended


async def test_who_does_not_wait_any_longer_takes_no_turn() -> None:
    queue = Queue()
    async with AsyncExitStack() as opened:
        await occupied(queue, opened)
        for name, user_id in (("ada0", "ada"), ("ada1", "ada"), ("bob0", "bob"), ("carl0", "carl")):
            await queue.join(name, user_id)
        for name in ("ada0", "bob0"):
            queue.waiting[name].cancel()
        await asyncio.wait([queue.waiting["ada0"], queue.waiting["bob0"]])
    assert await queue.all_served() == ["ada1", "carl0"]


async def test_a_turn_that_is_given_to_who_leaves_in_the_same_moment_is_another_s() -> None:
    queue = Queue()
    async with AsyncExitStack() as opened:
        await occupied(queue, opened)
        await queue.join("ada0", "ada")
        await queue.join("bob0", "bob")
        opened.callback(lambda: asyncio.get_running_loop().call_soon(queue.waiting["ada0"].cancel))
    assert await queue.all_served() in (["ada0", "bob0"], ["bob0"])
    assert not queue.pool.contended
    async with queue.pool.seat(Nobody):  # type: ignore[arg-type]  # the same
        pass


async def test_the_scripts_of_a_user_start_before_all_those_of_another_have() -> None:
    order: list[str] = []
    hold = asyncio.Event()

    async def note(given: dict[str, Any], context: ToolContext) -> None:
        order.append(given["name"])
        await hold.wait()

    tool = define_tool(
        id="note",
        name="Note",
        input={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        output={},
        execute=note,
    )
    sandbox = Sandbox({"note": tool}, pool=EnginePool(1))

    async def script(name: str, user_id: str) -> None:
        await sandbox.run(f"await note(name={name!r})", context=ToolContext(user_id=user_id, items=ItemStore()))

    running = [asyncio.create_task(script(f"ada{number}", "ada")) for number in range(4)]
    await asyncio.sleep(0)
    running.append(asyncio.create_task(script("bob", "bob")))
    await eventually(lambda: len(order) == 5, within=60)
    assert order[:3] == ["ada0", "ada1", "bob"]
    hold.set()
    await asyncio.gather(*running)
