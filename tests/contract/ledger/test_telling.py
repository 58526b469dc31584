"""What a ledger keeps from going wrong is told to who listens, and how its leases stand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from grundlag_bus import AnswerConflictError, Request, ToolContext
from grundlag_bus.telemetry import Event, LedgerAnswered, LedgerAway, LedgerNoted
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hosts import Host, on_buses
from tests.support.mailboxes import call_of, mailbox

pytestmark = on_buses


def listen(host: Host) -> list[Event]:
    told: list[Event] = []
    for running in host.workers:
        keeping = running.worker._serving._keeping
        assert keeping is not None
        keeping._presence._hook = told.append
    return told


def notes(told: list[Event]) -> list[str]:
    return [event.what for event in told if isinstance(event, LedgerNoted)]


async def test_repeats_and_conflicts_are_told_each_by_its_name(host: Host) -> None:
    told = listen(host)
    call = call_of("add", {"a": 1, "b": 2})
    async with mailbox(host) as box:
        await box.ask(call)
        assert notes(told) == []
        assert all(isinstance(event, LedgerAnswered) and 0 < event.seconds < 60 for event in told)
        await box.ask(call)
        await box.ask(replace(call, request=Request({"a": 1, "b": 9})))
    interrupt = await host.interrupt("ask", {"id": "x"})
    await host.tool("ask").resume(interrupt, {"approved": False}, ToolContext())
    with pytest.raises(AnswerConflictError):
        await host.tool("ask").resume(interrupt, {"approved": True}, ToolContext())
    assert notes(told) == ["reply_sent_again", "call_id_reused", "answer_conflict"]
    assert not any(isinstance(event, LedgerAway) for event in told)


async def test_leases_and_copies_of_what_another_worker_has_are_told(host: Host) -> None:
    (first,) = host.workers
    call = call_of("hold", {"name": "one"})
    async with mailbox(host) as box, mailbox(host) as other:
        await box.send(call)
        await eventually(lambda: seen.runs["hold one"] == 1)
        await asyncio.sleep(0.2)
        status = first.worker.status()
        assert status.leases == 1
        assert 0 < status.oldest_lease < 60
        await host.add_worker()
        told = listen(host)
        for _ in range(4):  # some of them reach the other worker
            await other.send(call)
        await eventually(lambda: "copy_parked" in notes(told))
        seen.gate("one").set()
        await box.replies()
    await eventually(lambda: first.worker.status().leases == 0)
