"""A worker with a ledger is killed between any two steps: the call ends once, its caller hears, nothing is left.

The workers that die are processes; who goes on is a worker of this one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, select, update

from grundlag_bus import AttemptsExhaustedError, Ledger, SealKeys, Store, ToolContext
from grundlag_bus.schema.codec import digest
from grundlag_bus.store.tables import calls
from grundlag_bus.workers.ledger import failpoints
from grundlag_bus.workers.ledger.claims import Claim
from grundlag_bus.workers.ledger.records import Records
from tests.support import contract_registry, long_actions
from tests.support.crashing_worker import Setting, crashing_worker
from tests.support.eventually import eventually
from tests.support.hosts import Host, open_host
from tests.support.mailboxes import call_of, mailbox
from tests.support.namespaces import delete_namespaces, fresh_namespace

LEASE = 2.0


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with await Store.open(store_url) as opened:
        yield opened


class Scene:
    """A namespace of its own, whose provider is announced and has no worker."""

    def __init__(self, host: Host, store: Store, setting: Setting) -> None:
        self.host = host
        self.store = store
        self.setting = setting
        self.call_id = ""

    async def let_the_gone_be_dead(self) -> None:
        """End the lease of whoever is gone; the process that was to find it alive has done so."""
        async with self.store.transaction() as connection:
            gone = update(calls).where(calls.c.owner == "gone")
            await connection.execute(gone.values(lease_until=self.store.now))

    async def until_checkpointed(self) -> None:
        """Wait for the checkpoint of the scene's only call."""
        while True:
            async with self.store.transaction() as connection:
                mine = select(calls.c.checkpoint).where(calls.c.call_id == self.call_id)
                if await connection.scalar(mine) is not None:
                    return
            await asyncio.sleep(0.05)

    async def row(self, call_id: str) -> Row[Any]:
        async with self.store.transaction() as connection:
            return (await connection.execute(select(calls).where(calls.c.call_id == call_id))).one()


@asynccontextmanager
async def opened(  # noqa: PLR0913  what the processes share
    amqp_url: str, store: Store, store_url: str, tmp_path: Path, point: str | None, *, long: bool = False
) -> AsyncIterator[Scene]:
    namespace, keys = fresh_namespace(), SealKeys.generate()
    file = tmp_path / f"keys-{namespace}"
    keys.save(file)
    setting = Setting(amqp_url, namespace, str(file), store_url, LEASE, point, long)
    offers = long_actions.make_registry if long else contract_registry.make_registry
    ledger = Ledger(store, lease=LEASE)
    try:
        async with open_host("rabbitmq", namespace, amqp_url, keys, ledger=ledger, offers=offers) as host:
            await host.stop_workers()
            yield Scene(host, store, setting)
    finally:
        await delete_namespaces(amqp_url, [namespace])


# --- every point ------------------------------------------------------------------------------------------------------


Ask = Callable[[Scene], Coroutine[Any, Any, Any]]


async def add(scene: Scene) -> Any:
    return await scene.host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=150))


async def fail_once(scene: Scene) -> Any:
    return await scene.host.execute("flaky", {"times": 1}, ToolContext(timeout=150))


async def fail_always(scene: Scene) -> Any:
    with pytest.raises(AttemptsExhaustedError):
        await scene.host.execute("flaky", {"times": 9}, ToolContext(timeout=150))
    return {"given": "up"}


async def answer(scene: Scene) -> Any:
    await scene.host.add_worker()
    interrupt = await scene.host.interrupt("ask", {"id": "x"})
    await scene.host.stop_workers()
    given = await scene.host.tool("ask").resume(interrupt, {"approved": True}, ToolContext(timeout=150))
    return {"approved": given["approved"]}


async def find_it_held(scene: Scene) -> Any:
    """Call what a worker has that is gone without a word, which nobody knows yet. Waits for the other one to start."""
    long = scene.setting.long
    call = call_of("stride", {}, lane="long") if long else call_of("add", {"a": 1, "b": 2})
    asked = digest([call.provider_id, call.action_id, call.user_id, call.request.to_json()])

    def start(*_: Any, **__: Any) -> Any:
        from grundlag_bus.providers.disposition import Start  # noqa: PLC0415  here alone

        return Start()

    await Records(scene.store, 600.0).claim(Claim(call, asked, (), "gone", early=long), start, alone=False)
    async with mailbox(scene.host) as box:
        await box.send(call)
        return (await box.replies(within=150))[0].response.to_json()["result"]


async def stride(scene: Scene) -> Any:
    return await scene.host.execute("stride", {}, ToolContext(timeout=150))


async def stride_twice(scene: Scene) -> Any:
    return await scene.host.execute("stride", {"fail": 1}, ToolContext(timeout=150))


async def be_drained(scene: Scene) -> Any:
    """Call what is still at its first step when its worker is told to stop."""
    call = call_of("stride", {"seconds": 60}, lane="long", deadline=time.time() + 150)
    scene.call_id = call.call_id
    async with mailbox(scene.host) as box:
        await box.send(call)
        return (await box.replies(within=150))[0].response.to_json()["result"]


SCENES: dict[str, tuple[Ask, Any]] = {
    "claim.before": (add, {"sum": 3}),
    "claim.granted": (add, {"sum": 3}),
    "answer.consumed": (answer, {"approved": True}),
    "run.ended": (add, {"sum": 3}),
    "outcome.recorded": (add, {"sum": 3}),
    "letter.published": (fail_always, {"given": "up"}),
    "reply.published": (add, {"sum": 3}),
    "handover.recorded": (fail_once, {"attempt": 2}),
    "handover.published": (fail_once, {"attempt": 2}),
    "handover.marked": (fail_once, {"attempt": 2}),
    "watch.published": (find_it_held, {"sum": 3}),
}
"""For each point, what a caller does on whose way it lies, and what it gets."""

BEGUN, GONE_ON, AGAIN = {"attempt": 1}, {"began": 1, "attempt": 1}, {"began": 1, "attempt": 2}
LONG_SCENES: dict[str, tuple[Ask, Any]] = {
    "early.published": (stride, BEGUN),
    "early.recorded": (stride, BEGUN),
    "early.settled": (stride, BEGUN),
    "checkpoint.recorded": (stride, GONE_ON),
    "run.ended": (stride, GONE_ON),
    "outcome.recorded": (stride, BEGUN),
    "reply.published": (stride, BEGUN),
    "reply.marked": (stride, BEGUN),
    "handover.recorded": (stride_twice, AGAIN),
    "handover.published": (stride_twice, AGAIN),
    "handover.marked": (stride_twice, AGAIN),
    "copy.published": (find_it_held, BEGUN),
    "copy.replaced": (find_it_held, BEGUN),
    "drain.released": (be_drained, GONE_ON),
    "drain.published": (be_drained, GONE_ON),
}
"""The same in lane `long`, where nothing of a call is in the hand of the worker that dies.

Where a call began is told by what it got alone if it has to be the checkpoint: on a busy machine a worker stops it for
its lease, and starts it again.
"""
AT_ONCE = 5
"""Scenes that are played at once: their workers share two cores."""


def test_every_point_has_a_scene() -> None:
    assert {*SCENES, *LONG_SCENES} == set(failpoints.POINTS)
    assert len(set(failpoints.POINTS)) == len(failpoints.POINTS)


async def killed_at(point: str, scene: Scene) -> str | None:
    """Play a scene, and return what went wrong."""
    ask, expected = (LONG_SCENES if scene.setting.long else SCENES)[point]
    asking = asyncio.create_task(ask(scene))
    try:
        if ask is answer:
            await asyncio.sleep(0)
            await eventually(lambda: not scene.host.workers and scene.host.bus_caller.in_flight == 1, within=30)
        async with crashing_worker(scene.setting) as process:
            if ask is be_drained:
                await asyncio.wait_for(scene.until_checkpointed(), 90)
                assert process.pid is not None
                os.kill(process.pid, signal.SIGTERM)
            await eventually(lambda: process.exitcode is not None, within=90)
            if process.exitcode != -signal.SIGKILL:
                return f"its worker ended with {process.exitcode}"
            if ask is find_it_held:
                await scene.let_the_gone_be_dead()
            await scene.host.add_worker()
            got = await asyncio.wait_for(asking, 90)
        return None if {**got, **expected} == got else f"its caller got {got}"
    except Exception as error:  # noqa: BLE001  told with its point
        return repr(error)
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asking


@pytest.mark.timeout(580)
@pytest.mark.parametrize(
    "long", [pytest.param(False, id="main"), pytest.param(True, id="long", marks=pytest.mark.long)]
)
async def test_a_worker_may_be_killed_between_any_two_steps(  # noqa: PLR0913, PLR0917  what the processes share
    amqp_url: str, store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "hook", reached.append)
    scenes = LONG_SCENES if long else SCENES
    told: dict[str, str | None] = {}
    over, places = asyncio.Event(), asyncio.Semaphore(AT_ONCE)

    async def play(point: str) -> None:
        async with opened(amqp_url, store, store_url, tmp_path, point, long=long) as scene:
            async with places:
                told[point] = await killed_at(point, scene)
            await over.wait()

    playing = [asyncio.create_task(play(point)) for point in scenes]
    try:
        await eventually(lambda: len(told) == len(scenes), within=500)
        # Longer than a lease and the second that the delay ladder rounds up to: a copy that circles would be seen.
        await asyncio.sleep(LEASE + 2)
        before = len(reached)
        await asyncio.sleep(LEASE + 2)
        assert reached[before:] == []
    finally:
        over.set()
        await asyncio.gather(*playing)
    assert {point: wrong for point, wrong in told.items() if wrong is not None} == {}
    async with store.transaction() as connection:
        rows = (await connection.execute(select(calls))).all()
    assert {row.phase for row in rows} <= {"ended", "dead"}
    assert [row.call_id for row in rows if row.lease_until is not None or row.letter is not None] == []
    assert [row.call_id for row in rows if row.copy is not None or (long and row.mailboxes)] == []


# --- a worker that is late --------------------------------------------------------------------------------------------


async def test_a_worker_that_was_paused_past_its_lease_ends_nothing(
    amqp_url: str, store: Store, store_url: str, tmp_path: Path
) -> None:
    async with opened(amqp_url, store, store_url, tmp_path, None) as scene:
        call = call_of("block", {"seconds": 1.5})
        started = tmp_path / "started"
        async with crashing_worker(replace(scene.setting, started=started)) as late:
            assert late.pid is not None
            await eventually(started.exists, within=60)  # what it is paused in is this call, and not its start
            async with mailbox(scene.host) as box:
                await box.send(call)
                while True:
                    with suppress(Exception):
                        if (await scene.row(call.call_id)).phase == "leased":
                            break
                    await asyncio.sleep(0.02)
                os.kill(late.pid, signal.SIGSTOP)
                running = await scene.host.add_worker()
                for _ in range(4):  # one of them reaches the worker that is not paused
                    await box.send(call)
                first = (await box.replies(within=40))[0]
                assert first.worker == running.worker.name
                recorded = await scene.row(call.call_id)
                assert recorded.fence == 2
                before = len(await box.replies())
                os.kill(late.pid, signal.SIGCONT)
                replies = await box.replies(before + 1, within=40)
                assert all(reply == first for reply in replies)
                assert await scene.row(call.call_id) == recorded
