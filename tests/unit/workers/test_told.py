from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from grundlag_bus import (
    ActionContext,
    ActionFailed,
    BusCaller,
    Call,
    Completed,
    Defer,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    Reply,
    Request,
    Retry,
    ToolInterrupt,
    Worker,
)
from grundlag_bus.schema.control import Cancel
from grundlag_bus.schema.envelope import encode_reply
from grundlag_bus.telemetry import (
    CallBuried,
    CallEnded,
    CallSentOn,
    CallStarted,
    EnvelopeRefused,
    Event,
    LoopBlocked,
    LoopTurned,
    ReplyLate,
)
from grundlag_bus.transport import named_bus
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.status import ready
from tests.support.eventually import eventually


class Word(BaseModel):
    text: str


class Approval(BaseModel):
    approved: bool


class PassingError(Exception):
    pass


notes = Provider("notes", name="Notes")


@notes.action("echo", name="Echo")
async def echo(word: Word) -> Word:
    """Echoes."""
    await asyncio.sleep(0.05)
    return word


@notes.action("ask", name="Ask", answer=Approval)
async def ask(word: Word, context: ActionContext[Approval]) -> Word:
    """Asks."""
    raise ToolInterrupt("May I?")


@notes.action("refuse", name="Refuse")
async def refuse(word: Word) -> Word:
    """Fails."""
    raise ActionFailed("too_late", "It is too late.")


@notes.action("again", name="Again", retry=Retry(PassingError, attempts=2, backoff=0))
async def again(word: Word) -> Word:
    """Fails each time."""
    raise PassingError


@notes.action("later", name="Later")
async def later(word: Word, context: ActionContext) -> Word:
    """Waits first."""
    if context.deferred is None:
        raise Defer("waited", after=0)
    return word


@notes.action("block", name="Block")
async def block(word: Word) -> Word:
    """Blocks the loop."""
    time.sleep(1.0)  # noqa: ASYNC251  what it is for
    return word


class Served:
    """A worker and a caller on a bus of their own, with what they tell."""

    def __init__(self, hook: Callable[[Event], None] | None = None) -> None:
        self.told: list[Event] = []
        self.told_caller: list[Event] = []
        self.transport = MemoryTransport(bus=named_bus(f"told-{id(self)}"))
        self.worker = Worker(self.transport, ProviderRegistry([notes]), hook=hook or self.told.append)
        self.caller = BusCaller(self.transport, hook=self.told_caller.append)

    async def call(self, action_id: str, **changes: Any) -> Call:
        now = self.transport.now()
        call = Call(f"c-{action_id}", "notes", action_id, Request({"text": "a"}), now + 20, sent_at=now, **changes)
        await self.caller.call(call)
        await eventually(lambda: self.worker.in_flight == 0)
        return call

    @property
    def of_calls(self) -> list[Event]:
        return [event for event in self.told if not isinstance(event, LoopTurned)]


@asynccontextmanager
async def serving(hook: Callable[[Event], None] | None = None) -> AsyncIterator[Served]:
    served = Served(hook)
    running = asyncio.create_task(served.worker.run())
    await served.worker.started.wait()
    await served.caller.open()
    try:
        yield served
    finally:
        running.cancel()
        await asyncio.wait({running})
        await served.caller.close()
        await served.transport.close()


async def test_a_call_that_completes_is_told_when_it_starts_and_when_it_has_its_response() -> None:
    async with serving() as served:
        await served.call("echo")

    [started, ended] = served.of_calls
    assert isinstance(started, CallStarted)
    assert (started.provider_id, started.action_id, started.lane, started.call_id) == (
        "notes",
        "echo",
        "main",
        "c-echo",
    )
    assert (started.generation, started.attempt, started.redelivered, started.lost) == (1, 1, False, 0)
    assert started.queued is not None
    assert 0 <= started.queued < 20
    assert isinstance(ended, CallEnded)
    assert (ended.outcome, ended.code, ended.call_id) == ("completed", None, "c-echo")
    assert ended.ran is not None
    assert 0.04 < ended.ran <= ended.total < 20


@pytest.mark.parametrize(
    ("action_id", "outcome", "code"),
    [("ask", "interrupted", None), ("refuse", "failed", "too_late"), ("missing", "failed", "action_unknown")],
)
async def test_every_outcome_is_told_with_its_code(action_id: str, outcome: str, code: str | None) -> None:
    async with serving() as served:
        await served.call(action_id)

    *started, ended = served.of_calls
    assert isinstance(ended, CallEnded)
    assert (ended.outcome, ended.code) == (outcome, code)
    assert len(started) == (action_id != "missing"), "what is not there is not started"


async def test_retries_and_the_dead_letter_are_told_and_the_pause_is_not_taken_for_a_queue() -> None:
    async with serving() as served:
        await served.call("again")

    first, sent_on, second, buried, ended = served.of_calls
    assert isinstance(first, CallStarted)
    assert first.queued is not None
    assert isinstance(sent_on, CallSentOn)
    assert (sent_on.why, sent_on.pause) == ("retry", 0)
    assert isinstance(second, CallStarted)
    assert (second.attempt, second.generation, second.queued) == (2, 2, None)
    assert isinstance(buried, CallBuried)
    assert isinstance(ended, CallEnded)
    assert buried.code == ended.code == "attempts_exhausted"


async def test_a_deferred_call_is_told_as_sent_on() -> None:
    async with serving() as served:
        await served.call("later")

    assert [event.why for event in served.of_calls if isinstance(event, CallSentOn)] == ["defer"]


async def test_what_cannot_be_read_is_told_at_both_ends_and_so_is_a_late_reply() -> None:
    async with serving() as served:
        transport, topology = served.transport, served.transport.topology
        until = transport.now() + 20
        await transport.publish(topology.call_route("notes", "main"), Message(b"no call", "call"), deadline=until)
        await eventually(lambda: served.of_calls)
        mailbox = served.caller._mailbox
        late = encode_reply(Reply("gone", Completed(1), "w1"))
        for body in (b"no reply", late):
            await transport.publish(topology.reply_route(mailbox), Message(body, "reply"), deadline=until)
        await eventually(lambda: len(served.told_caller) == 2)

    assert isinstance(served.of_calls[0], EnvelopeRefused)
    assert isinstance(served.told_caller[0], EnvelopeRefused)
    assert served.told_caller[1] == ReplyLate("gone", "w1")


async def test_a_hook_that_raises_harms_no_call_and_is_logged() -> None:
    def hook(event: Event) -> None:
        raise ZeroDivisionError

    with capture_logs() as logs:
        async with serving(hook) as served:
            reply = await served.caller.call(
                Call("c1", "notes", "echo", Request({"text": "a"}), served.transport.now() + 20)
            )

    assert reply.response.to_json()["status"] == "completed"
    assert {line["of"] for line in logs if line["event"] == "hook_failed"} >= {"CallStarted", "CallEnded"}


async def test_an_action_that_blocks_the_loop_is_told_by_its_name() -> None:
    with capture_logs() as logs:
        async with serving() as served:
            await served.call("block")
            await eventually(lambda: any(isinstance(event, LoopBlocked) for event in served.told))

    [blocked] = [event for event in served.told if isinstance(event, LoopBlocked)]
    assert blocked.culprit == "notes.block"
    [line] = [line for line in logs if line["event"] == "loop_blocked"]
    assert (line["action"], line["call_id"]) == ("notes.block", "c-block")
    assert line["place"].endswith(" block")


async def test_a_worker_whose_loop_stands_still_says_so_to_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grundlag_bus.workers.status.PATIENCE", 0.3)
    async with serving() as served:
        heard: list[str] = []

        def ask() -> None:
            end = time.monotonic() + 10
            while not heard and time.monotonic() < end:
                heard.extend(served.worker.ready().reasons)

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.9)  # noqa: ASYNC251  what is tested
        await asyncio.to_thread(asking.join)
        assert heard[0].startswith("the event loop has not turned for")
        await eventually(lambda: served.worker.ready().ok)


async def test_a_worker_tells_how_it_stands_from_its_start_to_its_end() -> None:
    served = Served()
    assert ready(served.worker.status()).reasons == ("starting", "not connected to the broker")
    running = asyncio.create_task(served.worker.run())
    await served.worker.started.wait()
    await served.caller.open()
    status = served.worker.status()
    assert ready(status).ok
    assert served.worker.live().ok
    assert (status.name, status.providers, status.lanes) == (served.worker.name, ("notes",), ("main",))

    calling = asyncio.create_task(served.call("echo"))
    await eventually(lambda: served.worker.status().in_flight == 1)
    await eventually(lambda: served.worker.status().calls == ("c-echo",))
    running.cancel()
    await eventually(lambda: served.worker.status().draining)
    assert ready(served.worker.status()).reasons == ("draining",)
    await calling
    await asyncio.wait({running})
    await served.caller.close()
    await served.transport.close()


async def test_a_worker_whose_loop_stands_still_is_not_live() -> None:
    async with serving() as served:
        asked = asyncio.get_running_loop().run_in_executor(None, _ask_later, served.worker)
        time.sleep(1.0)  # noqa: ASYNC251  what it is for
        report = await asked

        assert not report.ok
        assert report.reasons[0].startswith("the event loop has not turned for")
        await eventually(lambda: served.worker.live(within=0.3).ok)


def _ask_later(worker: Worker) -> Any:
    time.sleep(0.7)
    return worker.live(within=0.3)


async def test_a_call_that_was_cancelled_before_it_came_is_told_as_ended_without_a_run() -> None:
    async with serving() as served:
        transport, topology = served.transport, served.transport.topology
        until = transport.now() + 20
        body = Cancel("c-echo", transport.now()).encode()
        await transport.publish(topology.control_route("cancel"), Message(body, "cancel"), deadline=until)
        await eventually(lambda: "c-echo" in served.worker._serving._cancelled)
        await served.call("echo")

    [ended] = served.of_calls
    assert isinstance(ended, CallEnded)
    assert (ended.outcome, ended.code, ended.ran) == ("failed", "cancelled", None)
