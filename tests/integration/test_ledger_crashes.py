"""A worker with a ledger is killed between any two steps: the call ends once, its caller hears, nothing is left.

The workers that die are processes; who goes on is a worker of this one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
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

    async def row(self, call_id: str) -> Row[Any]:
        async with self.store.transaction() as connection:
            return (await connection.execute(select(calls).where(calls.c.call_id == call_id))).one()


@asynccontextmanager
async def opened(
    amqp_url: str, store: Store, store_url: str, tmp_path: Path, point: str | None
) -> AsyncIterator[Scene]:
    namespace, keys = fresh_namespace(), SealKeys.generate()
    file = tmp_path / f"keys-{namespace}"
    keys.save(file)
    setting = Setting(amqp_url, namespace, str(file), store_url, LEASE, point)
    try:
        async with open_host("rabbitmq", namespace, amqp_url, keys, ledger=Ledger(store, lease=LEASE)) as host:
            await host.stop_workers()
            yield Scene(host, store, setting)
    finally:
        await delete_namespaces(amqp_url, [namespace])


# --- every point ------------------------------------------------------------------------------------------------------


Ask = Callable[[Scene], Coroutine[Any, Any, Any]]


async def add(scene: Scene) -> Any:
    return await scene.host.execute("add", {"a": 1, "b": 2}, ToolContext(timeout=60))


async def fail_once(scene: Scene) -> Any:
    return (await scene.host.execute("flaky", {"times": 1}, ToolContext(timeout=60)))["attempt"]


async def fail_always(scene: Scene) -> Any:
    with pytest.raises(AttemptsExhaustedError):
        await scene.host.execute("flaky", {"times": 9}, ToolContext(timeout=60))
    return "given up"


async def answer(scene: Scene) -> Any:
    await scene.host.add_worker()
    interrupt = await scene.host.interrupt("ask", {"id": "x"})
    await scene.host.stop_workers()
    given = await scene.host.tool("ask").resume(interrupt, {"approved": True}, ToolContext(timeout=60))
    return given["approved"]


async def find_it_held(scene: Scene) -> Any:
    """Call what a worker has that is gone without a word, which nobody knows yet. Waits for the other one to start."""
    call = call_of("add", {"a": 1, "b": 2})
    asked = digest([call.provider_id, call.action_id, call.user_id, call.request.to_json()])

    def start(*_: Any, **__: Any) -> Any:
        from grundlag_bus.providers.disposition import Start  # noqa: PLC0415  here alone

        return Start()

    await Records(scene.store, 600.0).claim(Claim(call, asked, (), "gone"), start, alone=False)
    async with mailbox(scene.host) as box:
        await box.send(call)
        return (await box.replies(within=150))[0].response.to_json()["result"]


SCENES: dict[str, tuple[Ask, Any]] = {
    "claim.before": (add, {"sum": 3}),
    "claim.granted": (add, {"sum": 3}),
    "answer.consumed": (answer, True),
    "run.ended": (add, {"sum": 3}),
    "outcome.recorded": (add, {"sum": 3}),
    "letter.published": (fail_always, "given up"),
    "reply.published": (add, {"sum": 3}),
    "handover.recorded": (fail_once, 2),
    "handover.published": (fail_once, 2),
    "handover.marked": (fail_once, 2),
    "watch.published": (find_it_held, {"sum": 3}),
}
"""For each point, what a caller does on whose way it lies, and what it gets."""


def test_every_point_has_a_scene() -> None:
    assert tuple(SCENES) == failpoints.POINTS


async def killed_at(point: str, scene: Scene) -> str | None:
    """Play a scene, and return what went wrong."""
    ask, expected = SCENES[point]
    asking = asyncio.create_task(ask(scene))
    try:
        if ask is answer:
            await asyncio.sleep(0)
            await eventually(lambda: not scene.host.workers and scene.host.bus_caller.in_flight == 1, within=30)
        with crashing_worker(scene.setting) as process:
            await eventually(lambda: process.exitcode is not None, within=90)
            if process.exitcode != -signal.SIGKILL:
                return f"its worker ended with {process.exitcode}"
            if ask is find_it_held:
                await scene.let_the_gone_be_dead()
            await scene.host.add_worker()
            got = await asyncio.wait_for(asking, 90)
        return None if got == expected else f"its caller got {got}"
    except Exception as error:  # noqa: BLE001  told with its point
        return repr(error)
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asking


@pytest.mark.timeout(280)
async def test_a_worker_may_be_killed_between_any_two_steps(
    amqp_url: str, store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    monkeypatch.setattr(failpoints, "hook", reached.append)
    told: dict[str, str | None] = {}
    over = asyncio.Event()

    async def play(point: str) -> None:
        async with opened(amqp_url, store, store_url, tmp_path, point) as scene:
            told[point] = await killed_at(point, scene)
            await over.wait()

    playing = [asyncio.create_task(play(point)) for point in SCENES]
    try:
        await eventually(lambda: len(told) == len(SCENES), within=200)
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


# --- a worker that is late --------------------------------------------------------------------------------------------


async def test_a_worker_that_was_paused_past_its_lease_ends_nothing(
    amqp_url: str, store: Store, store_url: str, tmp_path: Path
) -> None:
    async with opened(amqp_url, store, store_url, tmp_path, None) as scene:
        call = call_of("block", {"seconds": 1.5})
        with crashing_worker(scene.setting) as late:
            assert late.pid is not None
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
